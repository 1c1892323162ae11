#include "bindings/modules.hpp"

#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <map>
#include <mutex>

#include "bindings/effects.hpp"
#include "bindings/errors.hpp"
#include "bindings/session.hpp"
#include "bindings/statements.hpp"
#include "machine/front/entry_words.hpp"
#include "machine/front/error.hpp"
#include "machine/program/register_names.hpp"
#include "machine/program/shared_layout.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace sglab::emu {
namespace {

using bindings::PyKernel;

// A lone surrogate has no UTF-8: `errors` says what stands for it.
std::string encoded(const nb::str& text, const char* errors) {
  const auto bytes = nb::steal<nb::bytes>(PyUnicode_AsEncodedString(text.ptr(), "utf-8", errors));
  if (!bytes.is_valid()) throw nb::python_error();
  return {bytes.c_str(), bytes.size()};
}

// PTX and the name it goes by. A lone surrogate becomes '?', which no instruction has.
std::string ptx_text(const nb::str& ptx) {
  return encoded(ptx, "replace");
}
std::string text_name(const nb::str& name) {
  return encoded(name, "backslashreplace");
}

template <class F>
void read(const std::string& name, F f) {
  try {
    f();
  } catch (const PtxError& error) {
    throw bindings::NamedPtxError{error, name};
  } catch (const std::bad_alloc&) {
    throw bindings::NamedPtxError{PtxError(1, 1, "the system has no memory for what this text declares"),
                                  name};
  }
}

// A kernel is decoded on first use.
class PyModule {
 public:
  PyModule(const nb::str& ptx, const nb::str& name) {
    std::string text = ptx_text(ptx), called = text_name(name);
    const nb::gil_scoped_release release;
    read(called, [&] {
      image_ = std::make_shared<Image>(parse_module(std::move(text), called, bindings::check_signals));
    });
  }

  const Module& module() const { return image_->module(); }

  std::vector<std::string> entries() const {
    std::vector<std::string> names;
    for (const Function& function : module().functions) {
      if (function.entry && function.defined) names.emplace_back(function.name);
    }
    return names;
  }

  // The lock is taken without the GIL: whoever holds it asks for signals now and then.
  PyKernel kernel(const std::string& name) {
    const nb::gil_scoped_release release;
    for (std::uint32_t i = 0; i < module().functions.size(); ++i) {
      const Function& function = module().functions[i];
      if (!function.entry || !function.defined || function.name != name) continue;
      const std::lock_guard lock(mutex_);
      std::shared_ptr<const Program>& program = programs_[i];
      if (program == nullptr)
        read(module().name, [&] { program = decode_kernel(image_, i, bindings::check_signals); });
      return {image_, program};
    }
    throw nb::key_error(("no kernel named " + name).c_str());
  }

 private:
  std::shared_ptr<const Image> image_;
  std::mutex mutex_;
  std::map<std::uint32_t, std::shared_ptr<const Program>> programs_;
};

nb::tuple version_of(const Module& module) {
  return nb::make_tuple(module.version[0], module.version[1]);
}

using ParameterRow = std::tuple<std::string, std::uint32_t, std::uint32_t, std::string, std::uint32_t>;

// (name, bytes, alignment, type, offset)
std::vector<ParameterRow> parameter_rows(const Module& module, const Function& function) {
  std::vector<ParameterRow> rows;
  for (const std::uint32_t index : function.parameters) {
    const Symbol& symbol = module.symbols[index];
    rows.emplace_back(std::string(symbol.name), static_cast<std::uint32_t>(symbol.bytes), symbol.align,
                      std::string(type_name(symbol.type)), symbol.offset);
  }
  return rows;
}

nb::object extent_or_none(const Extent& extent) {
  if (extent[0] == 0) return nb::none();
  return nb::make_tuple(extent[0], extent[1], extent[2]);
}

std::vector<std::string> source_files(const PyKernel& kernel) {
  std::map<std::uint32_t, std::string> sorted(kernel.image->module().files.begin(),
                                              kernel.image->module().files.end());
  std::vector<std::string> names;
  for (const auto& [index, name] : sorted) names.push_back(name);
  return names;
}

std::size_t instruction_count(const PyKernel& kernel) {
  std::size_t count = 0;
  for (const Place& place : kernel.program->places) count += place.line != 0;
  return count;
}

nb::list shared_rows(const PyKernel& kernel) {
  nb::list all;
  for (const SharedVariable& v : shared_variables(*kernel.program))
    all.append(nb::make_tuple(std::string(v.name), v.offset, v.bytes));
  return all;
}

std::vector<std::tuple<std::uint64_t, std::uint64_t, std::string>> variable_rows(const PyKernel& kernel) {
  std::vector<std::tuple<std::uint64_t, std::uint64_t, std::string>> rows;
  for (const Allocation& a : kernel.image->allocations()) rows.emplace_back(a.begin, a.end - a.begin, a.name);
  return rows;
}

// PTX as it is read once, without a copy where it has UTF-8.
class ReadOnce {
 public:
  explicit ReadOnce(const nb::str& ptx) {
    Py_ssize_t size = 0;
    const char* const text = PyUnicode_AsUTF8AndSize(ptx.ptr(), &size);  // it stays as long as `ptx`
    if (text != nullptr) {
      view_ = {text, static_cast<std::size_t>(size)};
    } else {
      PyErr_Clear();
      replaced_ = ptx_text(ptx);
      view_ = replaced_;
    }
  }
  std::string_view view() const { return view_; }

 private:
  std::string replaced_;
  std::string_view view_;
};

nb::tuple header(const nb::str& ptx, const nb::str& name) {
  const std::string called = text_name(name);
  const ReadOnce text(ptx);
  Module module;
  {
    const nb::gil_scoped_release release;
    read(called, [&] { module = parse_header(text.view(), called, bindings::check_signals); });
  }
  nb::list entries;
  for (const Function& function : module.functions) {
    if (!function.entry || !function.defined) continue;
    entries.append(nb::make_tuple(std::string(function.name), parameter_rows(module, function),
                                  extent_or_none(function.reqntid), extent_or_none(function.maxntid),
                                  extent_or_none(function.reqnctapercluster)));
  }
  return nb::make_tuple(version_of(module), module.target, entries);
}

std::vector<WordsStatement> words_of(const ReadOnce& text, const nb::str& entry) {
  const std::string name = text_name(entry);
  std::vector<WordsStatement> found;
  const nb::gil_scoped_release release;
  read(name, [&] { found = entry_words(text.view(), name, bindings::check_signals); });
  return found;
}

nb::list words_rows(const nb::str& ptx, const nb::str& entry) {
  const ReadOnce text(ptx);
  nb::list all;
  for (const WordsStatement& statement : words_of(text, entry)) {
    nb::list operands;
    for (const WordsOperand& operand : statement.operands) {
      nb::list names;
      for (const std::string_view name : operand.names) names.append(std::string(name));
      operands.append(nb::make_tuple(operand.address, names));
    }
    all.append(nb::make_tuple(std::string(statement.opcode), operands));
  }
  return all;
}

bool words_mention(const nb::str& ptx, const nb::str& entry, const std::string& word) {
  const ReadOnce text(ptx);
  for (const WordsStatement& statement : words_of(text, entry)) {
    for (const WordsOperand& operand : statement.operands) {
      if (std::ranges::find(operand.names, word) != operand.names.end()) return true;
    }
  }
  return false;
}

}  // namespace
}  // namespace sglab::emu

void sglab::bindings::register_modules(nb::module_& module) {
  using namespace sglab::emu;
  nb::class_<PyModule>(module, "Module", "A parsed PTX module with memory for its variables.")
      .def(nb::init<const nb::str&, const nb::str&>(), "ptx"_a, "name"_a = "<ptx>")
      .def_prop_ro("name", [](const PyModule& m) { return m.module().name; })
      .def_prop_ro("target", [](const PyModule& m) { return m.module().target; })
      .def_prop_ro("ptx_version", [](const PyModule& m) { return version_of(m.module()); })
      .def_prop_ro("entries", &PyModule::entries)
      .def("kernel", &PyModule::kernel, "name"_a);

  nb::class_<PyKernel>(module, "Kernel", "One kernel of a module, decoded.")
      .def_prop_ro("name", [](const PyKernel& k) { return k.program->name; })
      .def_prop_ro(
          "params", [](const PyKernel& k) { return parameter_rows(k.image->module(), k.source()); },
          "(name, bytes, alignment, type, offset) of each parameter.")
      .def_prop_ro("static_smem", [](const PyKernel& k) { return k.program->shared_bytes; })
      .def_prop_ro("variables", variable_rows,
                   "(address, bytes, name) of the module's variables in global and constant memory.")
      .def_prop_ro("shared_variables", shared_rows,
                   "(name, offset, bytes) of variables in shared memory; the dynamic array has 0 bytes.")
      .def_prop_ro(
          "dynamic_smem", [](const PyKernel& k) { return k.program->dynamic_shared; },
          "Where dynamic shared memory starts.")
      .def_prop_ro("reqntid", [](const PyKernel& k) { return extent_or_none(k.source().reqntid); })
      .def_prop_ro("maxntid", [](const PyKernel& k) { return extent_or_none(k.source().maxntid); })
      .def_prop_ro("reqnctapercluster",
                   [](const PyKernel& k) { return extent_or_none(k.source().reqnctapercluster); })
      .def_prop_ro("source_files", source_files)
      .def_prop_ro("instruction_count", instruction_count)
      .def(
          "code", [](const PyKernel& k) { return bindings::code_rows(*k.program); },
          "(PTX line, mnemonic, class, [(file, line, column, inlined function)]) of every decoded "
          "instruction.")
      .def(
          "effects", [](const PyKernel& k) { return k.program->effects; },
          "What every decoded instruction does.")
      .def(
          "multiplications", [](const PyKernel& k) { return bindings::multiplications(*k.program); },
          "{pc: (kind, m, n, k, type of A, of B, of D, A is in registers)} of wgmma and mma.sync.")
      .def(
          "converts_halves", [](const PyKernel& k) { return converts_halves(*k.program); },
          "By instruction: a conversion of a 32-bit integer that was cut to 16 bits.")
      .def(
          "statements", [](const PyKernel& k) { return bindings::statements(*k.program); },
          "(mnemonic, [registers of each operand]) of every statement; without guards, addresses, "
          "predicates.")
      .def(
          "half_registers", [](const PyKernel& k) { return bindings::half_registers(*k.program); },
          "Registers declared with 16 bits.")
      .def(
          "early_uses",
          [](const PyKernel& k) {
            std::vector<std::pair<std::uint32_t, std::uint32_t>> found;
            for (const EarlyUse& one : k.program->early_uses) found.emplace_back(one.filler, one.reader);
            return found;
          },
          "(filler, reader): an instruction that fills registers later, and one that reads them before any "
          "wait.")
      .def(
          "writers_of",
          [](const PyKernel& k, const std::string& name) { return writers_of(*k.program, name); },
          "register"_a, "pcs of the instructions that write a register.")
      .def_prop_ro(
          "register_bytes", [](const PyKernel& k) { return k.program->register_bytes; }, "Per warp.")
      .def_prop_ro(
          "unsupported", [](const PyKernel& k) { return k.program->unsupported; },
          "What keeps the kernel from being launched, one line per cause.");

  module.def("read_header", header, "ptx"_a, "name"_a = "<ptx>",
             "(version, target, [(entry, parameters as Kernel.params, reqntid, maxntid, "
             "reqnctapercluster)]): what a "
             "module says about its entries, by the rules by which Module reads it; bodies are passed over.");
  module.def(
      "entry_words", words_rows, "ptx"_a, "entry"_a,
      "(opcode, [(is an address, names)]) of every instruction of an entry, by its text alone, so that "
      "what only a GPU knows is there; without labels and guards. Empty if there is no such entry.");
  module.def("entry_mentions", words_mention, "ptx"_a, "entry"_a, "word"_a,
             "Whether an operand of an entry's instructions has this name in it.");
}
