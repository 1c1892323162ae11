#pragma once

#include <cstdint>

// f64 arithmetic in integers, rounded once in a given direction: for the directions that hosts do not round
// in by default, and for fused multiply-adds where the host has none. NaN results are some NaN.
namespace sglab::emu::binary64 {

// `mode` is an FpMode without kFtz.
double add(double a, double b, unsigned mode);
double multiply(double a, double b, unsigned mode);
double fused(double a, double b, double c, unsigned mode);  // a * b + c
double divide(double a, double b, unsigned mode);
double square_root(double a, unsigned mode);
double from_integer(bool negative, std::uint64_t magnitude, unsigned mode);

}  // namespace sglab::emu::binary64
