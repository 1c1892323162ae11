#pragma once

#include <functional>
#include <string_view>
#include <vector>

namespace sglab::emu {

// An operand as its text has it. Views point into the text.
struct WordsOperand {
  bool address;  // [ … ]
  std::vector<std::string_view> names;
};

struct WordsStatement {
  std::string_view opcode;  // "ld.global.v4.f32"
  std::vector<WordsOperand> operands;
};

// The instructions of an entry, without labels and guards, by names alone: what only a GPU knows is among
// them. Empty if the text has no such entry. In time linear in the text's length. Throws PtxError where
// parse_header does; Interrupted as there.
std::vector<WordsStatement> entry_words(std::string_view text, std::string_view entry,
                                        const std::function<bool()>& interrupted = {});

}  // namespace sglab::emu
