#include "observe/debug/inspect.hpp"

#include "machine/engine/fault.hpp"
#include "machine/program/builder.hpp"

namespace sglab::emu {

namespace {

// "void a::(anonymous namespace)::load<int>(b<c>&)" is "load".
std::string short_name(std::string name) {
  constexpr std::string_view kAnonymous = "(anonymous namespace)";
  for (std::size_t at; (at = name.find(kAnonymous)) != std::string::npos;) name.erase(at, kAnonymous.size());
  std::string last;
  int depth = 0;
  for (const char c : name) {
    if (c == '(' && depth == 0 && last != "operator") return last;
    if (c == '<' || c == '(') ++depth;
    if (depth == 0) last = c == ' ' || c == ':' ? "" : last + c;
    if ((c == '>' || c == ')') && depth > 0) --depth;
  }
  return last;
}

}  // namespace

std::string function_at(const Module& module, const Location& location) {
  const auto found = module.debug_strings.find(location.function_label);
  return found == module.debug_strings.end() ? "" : short_name(demangled(found->second));
}

std::vector<RegisterView> live_registers(const Warp& w, const Group& g) {
  const Program& program = *w.program;
  const ProgramFunction& owner = program.functions[program.places[g.pc].function];
  const Function& function = program.image->module().functions[owner.source];
  std::vector<RegisterView> views;
  for (std::uint32_t i = 0; i < function.registers.size(); ++i) {
    const Lifetime life = program.lifetimes[owner.first_register + i];
    const Ref place = program.registers[owner.first_register + i];
    const std::uint32_t at = 2 * g.pc;
    if (place == kConstantRef || at <= life.start || life.end < at) continue;
    const char letter = letter_of(function.registers[i]);
    const auto* const bytes =
        letter == 'p' ? reinterpret_cast<const std::uint8_t*>(w.predicates + place) : w.bank[0] + place;
    views.push_back({register_name(function, i), function.registers[i], letter, bytes});
  }
  return views;
}

std::uint32_t shown_pc(const Program& program, std::uint32_t pc) {
  while (pc + 1 < program.places.size() && program.places[pc].line == 0) ++pc;
  return pc;
}

std::vector<const Location*> source_chain(const Program& program, std::uint32_t pc) {
  const Module& module = program.image->module();
  std::vector<const Location*> chain;
  for (std::uint32_t at = program.places[pc].location; at != kNoIndex && chain.size() < 64;
       at = module.locations[at].inlined_at)
    chain.push_back(&module.locations[at]);
  return chain;
}

}  // namespace sglab::emu
