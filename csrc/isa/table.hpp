#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "isa/effects.hpp"
#include "isa/inst.hpp"

// The strict table: every instruction form the machine knows is a row. A mnemonic that matches no row is
// refused.
//
// A row's pattern spells the mnemonic in PTX order:
//   add[.sat].s32                         [ ] may be left out
//   ld.{global|shared}.{u32|f32}          { } exactly one
//   ld.global[.nc|.volatile]              [ | ] at most one
namespace sglab::emu {

class Builder;
struct Row;

// A mnemonic matched with its row; made once per distinct mnemonic.
struct Form {
  const Row* row = nullptr;
  std::vector<const Row*> others;  // further rows that match; they take different numbers of operands
  std::string_view mnemonic;
  std::vector<std::string_view> parts;  // after the opcode, in order: "global", "f32"
  Effects effects;                      // the row's, as these modifiers make them

  bool has(std::string_view part) const;
  // The n-th part that names a type ("f32"), or empty.
  std::string_view type(unsigned n = 0) const;
};

using Build = void (*)(Builder&);

// Handlers the decoder itself needs.
struct Support {
  static constexpr unsigned kWidths = 6;  // p, b, h, w, l, x
  Handler guarded;                        // runs Inst::body for the lanes whose guard holds
  Handler merged[kWidths];                // runs an alu body, keeping what inactive lanes had in Inst::d
  Handler guarded_merged[kWidths];
  Handler join;                             // start of a block that lanes may reach on several ways
  Handler special16, special32, special64;  // d = special register Inst::imm, cut to this width
  Handler explicit_cluster;                 // d = %is_explicit_cluster
  Handler window32, window64;               // d = shared-memory address Inst::imm of the own CTA
};

struct Row {
  std::string pattern;
  std::string family;  // heading in the coverage table
  InstClass kind = InstClass::kOther;
  Build build = nullptr;  // nullptr: made by Table::alu, built from its signature
  std::string signature;
  Handler handler = nullptr;
  std::int64_t argument = 0;  // for the builder and, as Inst::imm, for the handler
  Effects effects;
};

// Callers may be compiled for any instruction set, so their side of the interface has no standard-library
// templates.
class Table {
 public:
  // Rows added from here on belong to this family and class.
  void family(const char* name, InstClass kind);

  // What rows made by alu do from here on, to the end of the family.
  void effects(const Effects& effects);

  // From here on '$' in patterns stands for `type`, and 'n' and 'N' in signatures for `narrow` and `wide`.
  void type(const char* type, char narrow, char wide = ' ');

  // An instruction whose lanes do not see each other: `signature` has one letter per operand, destination
  // first:
  //   b 8-bit, h 16-bit, w 32-bit, l 64-bit, x 128-bit register or constant; f, d: w and l holding floats
  //   p predicate (a destination may be written p|q); i an integer constant, which goes to Inst::imm
  // Sources go to Inst::a, b, c and, without a predicate destination, Inst::target.
  // The handler may write all 32 lanes; guards and divergence are dealt with outside.
  void alu(const char* pattern, const char* signature, Handler handler, std::int64_t argument = 0);
  // The same for a row that departs from effects().
  void alu(const char* pattern, const char* signature, const Effects& effects, Handler handler,
           std::int64_t argument = 0);

  // Anything else: `build` reads the operands and fills the Inst. The handler must honour Warp::mask.
  void row(const char* pattern, const Effects& effects, Build build, Handler handler = nullptr,
           std::int64_t argument = 0);

  // nullptr row if nothing matches.
  Form match(std::string_view mnemonic) const;
  const std::vector<Row>& rows() const { return rows_; }

  Support support{};

 private:
  struct Item {
    bool optional;
    std::vector<std::string> choices;
  };
  struct Pattern {
    std::string opcode;
    std::vector<Item> items;
    std::uint32_t row;
  };
  static Pattern compile(std::string_view pattern);
  static bool match(std::span<const Item> items, std::span<const std::string_view> parts);
  void add(Row row);

  std::string type_;
  char narrow_ = 'n', wide_ = 'N';
  std::string family_;
  InstClass kind_ = InstClass::kOther;
  Effects effects_;
  bool stated_ = false;  // effects_
  std::vector<Row> rows_;
  std::unordered_map<std::string, std::vector<Pattern>> by_opcode_;
};

// All rows, with the handlers of the active instruction set.
const Table& instruction_table();

}  // namespace sglab::emu
