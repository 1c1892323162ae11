"""`sglab`: doctor, run decode with a report, and errors on one line."""

import json
import re
import struct
from pathlib import Path

import pytest

pytest.importorskip("torch")

from sglab.attention import ATTENTION_BACKENDS
from sglab.cli import main
from sglab.models import from_config
from sglab.serving import Engine
from tests.support.serving.tiny import CONFIG


def test_doctor_names_every_capability(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor"]) == 0
    printed = capsys.readouterr().out
    for capability in ("Emulator", "Tensors", "Triton kernels", "NVIDIA GPU", "CUDA compiler"):
        assert capability in printed
    assert all(
        "needs:" in after
        for before, after in zip(printed.splitlines(), printed.splitlines()[1:], strict=False)
        if "  no " in before
    )


def test_doctor_tries_the_nvcc_that_would_be_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = tmp_path / "bin" / "nvcc"
    broken.parent.mkdir()
    broken.write_text("#!/bin/sh\nexit 1\n")
    broken.chmod(0o755)
    monkeypatch.setenv("CUDA_HOME", str(tmp_path))
    assert main(["doctor"]) == 0
    said, remedy = capsys.readouterr().out.partition("CUDA compiler (nvcc)")[2].splitlines()[:2]
    assert f"{broken} --version failed" in said and "CUDA_HOME" in remedy


@pytest.mark.parametrize("backend", ["cutlass_mla", "triton", "torch_native"])
def test_run_decode_prints_shapes_error_and_what_ran(backend: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(f"run decode --seq-lens 70,1,33 --backend {backend} --num-heads 16 --page-size 32".split()) == 0
    printed = capsys.readouterr().out
    assert "(3, 16, 576)" in printed and "(3, 16, 512)" in printed
    assert f"what ran: {backend}, decode" in printed
    error = float(printed.split("largest error ")[1].split(",")[0])
    assert 0 <= error < 2e-3


def test_plan_is_printed_with_its_exact_arrays(capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        main(
            [
                "run",
                "decode",
                "--seq-lens",
                "300,40",
                "--num-heads",
                "16",
                "--planner",
                "flash_mla",
                "--sm-count",
                "132",
            ]
        )
        == 0
    )
    assert "tile_scheduler_metadata (132, 8) int32" in capsys.readouterr().out


def test_flashmla_is_planned_for_the_h100_that_it_runs_on(capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        main(
            ["run", "decode", "--seq-lens", "300,40", "--backend", "flashmla", "--num-heads", "16", "--page-size", "64"]
        )
        == 0
    )
    printed = capsys.readouterr().out
    assert "plan of flash_mla for 132 SMs" in printed and "tile_scheduler_metadata (132, 8) int32" in printed
    assert "our kernel for Hopper, by FlashMLA's plan" in printed


def test_report_is_self_contained(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = tmp_path / "out.html"
    assert main(["run", "decode", "--seq-lens", "70,33", "--num-heads", "16", "--html", str(report)]) == 0
    page = report.read_text()
    assert 'data-sglab="page_table"' in page and 'data-sglab="split_kv"' in page
    assert not re.search(r"<[a-z]+ [^>]*\bsrc=", re.sub(r"<script.*?</script>", "", page, flags=re.S))
    assert "https://" not in page.split("<script")[0]


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        ("run decode --seq-lens 300 --backend cutlas_mla", "cutlass_mla"),
        ("run decode --seq-lens 300 --page-size 96 --backend cutlass_mla", "page_size"),
        ("run decode --seq-lens 300 --num-heads 0", "num_heads"),
        ("run decode --seq-lens 300 --planner unknown", "--planner"),
        ("run decode --seq-lens 300 --sm-count 0", "--sm-count"),
        ("run decode --seq-lens 300 --html no/such/folder/out.html", "--html"),
        ("run decode --seq-lens 300 --device xpu", "device"),
        ("run decode --seq-lens 99999999999", "seq_lens"),
        ("run decode --seq-lens 300 --backend torch_native --implementation triton", "implementation"),
    ],
)
def test_bad_input_is_one_line_and_status_2(arguments: str, names: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments.split()) == 2
    printed = capsys.readouterr().err
    assert printed.startswith("sglab: ") and names in printed and "Traceback" not in printed


def test_bad_lengths_are_refused_by_name(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["run", "decode", "--seq-lens", "300,x"])
    assert stopped.value.code == 2
    assert "--seq-lens" in capsys.readouterr().err


def test_ptx_lists_the_kernels_that_ship_and_prints_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ptx"]) == 0
    listed = capsys.readouterr().out
    assert "mla_decode_sm100   sm_100a" in listed and "csrc/kernels/sm100/mla_decode.cu" in listed
    assert main(["ptx", "mla_decode_sm100"]) == 0
    text = capsys.readouterr().out
    assert ".target sm_100a" in text and "tcgen05.mma.cta_group::2" in text and text.endswith("\n")


def test_ptx_of_an_unknown_name_is_an_error_on_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ptx", "mla"]) == 2
    printed = capsys.readouterr()
    assert printed.out == "" and "no kernel is called 'mla'" in printed.err and "mla_decode_sm90" in printed.err


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A checkpoint of bytes with random weights."""
    config = {**CONFIG, "vocab_size": 256, "tokenizer": "bytes", "dtype": "float32"}
    qkv, gates = [("q_proj", 32), ("k_proj", 16), ("v_proj", 16)], [("gate_proj", 48), ("up_proj", 48)]
    header: dict[str, object] = {}
    body = b""
    for name, parameter in from_config(config, "float32").named_parameters():
        parts = {"qkv_proj": qkv, "gate_up_proj": gates}.get(
            name.split(".")[-2], [(name.split(".")[-2], len(parameter))]
        )
        for (part, _), rows in zip(parts, parameter.detach().split([size for _, size in parts]), strict=True):
            content = rows.contiguous().numpy().tobytes()
            at = [len(body), len(body) + len(content)]
            key = name.replace(name.split(".")[-2], part)
            header[key] = {"dtype": "F32", "shape": list(rows.shape), "data_offsets": at}
            body += content
    text = json.dumps(header).encode()
    (tmp_path / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + body)
    (tmp_path / "config.json").write_text(json.dumps(config))
    return tmp_path


def test_generate_prints_what_the_engine_generates(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = f"generate --model {folder} --max-new-tokens 8 --max-total-tokens 256 --device cpu".split()
    engine = Engine(folder, device="cpu", max_total_tokens=256)
    wanted = engine.generate("Hello", {"temperature": 0, "max_new_tokens": 8})
    assert main([*given, "Hello"]) == 0
    assert capsys.readouterr().out == f"{wanted.text}\n"
    assert main([*given, "--steps", "Hello", "You"]) == 0
    told = capsys.readouterr().out
    assert f"Hello{wanted.text}" in told
    assert "step 0 EXTEND: request 1: prefill 5 at 0, request 2: prefill 3 at 0" in told


def test_generate_refuses_on_one_line(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["generate", "--model", str(folder), "--temperature", "-1", "Hello"]) == 2
    assert capsys.readouterr().err.startswith("sglab: temperature: expected 0 (greedy) or a positive finite number")


def test_backends_of_a_file_are_shown_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sglab.attention.registry.ATTENTION_BACKENDS", dict(ATTENTION_BACKENDS))
    file = tmp_path / "my_backend_of_a_file.py"
    file.write_text("""
from sglab.attention import AttentionBackend, Capabilities, register_attention_backend


@register_attention_backend("mine")
class Mine(AttentionBackend):
    capabilities = Capabilities(kinds=("mla",), page_sizes=(64,))

    def attend(self, inputs): ...
""")
    assert main(["backends", "mine", "--load", str(file)]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("mine\n") and "page sizes     64\n" in printed and "triton" not in printed
    assert main(["backends", "yours"]) == 2 and "unknown attention backend 'yours'" in capsys.readouterr().err
    assert main(["backends", "--load", str(tmp_path / "none.py")]) == 2 and "does not exist" in capsys.readouterr().err
