"""Conversations as a checkpoint's template writes them, beside transformers."""

import json
from pathlib import Path
from typing import Any

import pytest

from sglab.engine import BadArgumentError
from sglab.models.chat_template import ChatTemplate, load_chat_template
from sglab.models.tokenizer import FileTokenizer
from sglab.serving import openai

TALK = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "1 < 2 & \u00e9?"},
    {"role": "assistant", "content": "Yes."},
    {"role": "user", "content": "Why?"},
]
TEMPLATES = {
    "marks": (
        "{{ bos_token }}{% for m in messages %}\n    <|{{ m.role }}|>{{ m['content'] | trim }}{{ eos_token }}\n"
        "{% endfor %}\n{%- if add_generation_prompt %}<|assistant|>{% endif %}"
    ),
    "first message apart": (
        "{% if messages[0].role == 'system' %}{% set rest = messages[1:] %}{{ messages[0].content }}\n"
        "{% else %}{% set rest = messages %}{% endif %}"
        "{% for m in rest %}{% if loop.index0 > 9 %}{% break %}{% endif %}"
        "[{{ loop.index }}] {{ m | tojson }}{% endfor %}"
    ),
    "tools": "{% if tools is not none %}{{ tools | tojson(indent=2) }}{% endif %}{{ messages | length }}",
}
TOOLS = [{"type": "function", "function": {"name": "clock", "parameters": {"a": "<b>"}}}]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A word tokenizer with marks, as checkpoints keep it."""
    tokenizers = pytest.importorskip("tokenizers", reason="needs the package tokenizers")
    words = ["<s>", "</s>", "<|user|>", "<|assistant|>", "hello", "world", "[UNK]"]
    made = tokenizers.Tokenizer(
        tokenizers.models.WordLevel({word: i for i, word in enumerate(words)}, unk_token="[UNK]")
    )
    made.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    made.add_special_tokens(words[:4])
    made.post_processor = tokenizers.processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 0)])
    made.save(str(tmp_path / "tokenizer.json"))
    return tmp_path


def configure(folder: Path, **config: Any) -> Path:
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    return folder


@pytest.mark.parametrize("source", TEMPLATES.values(), ids=TEMPLATES)
@pytest.mark.parametrize("tools", [None, TOOLS], ids=["plain", "tools"])
def test_texts_are_those_of_transformers(source: str, tools: Any) -> None:
    utilities = pytest.importorskip("transformers.utils.chat_template_utils", reason="needs transformers")
    special = {"bos_token": "<s>", "eos_token": "</s>"}
    (wanted,), _ = utilities.render_jinja_template(
        conversations=[TALK], chat_template=source, tools=tools, add_generation_prompt=True, **special
    )
    assert ChatTemplate(source, special).render(TALK, tools=tools) == wanted


def test_a_template_is_found_where_checkpoints_keep_it(folder: Path) -> None:
    assert load_chat_template(folder) is None
    configure(folder, chat_template="A{{ bos_token }}", bos_token={"content": "<s>", "lstrip": False})
    assert load_chat_template(folder).render(TALK) == "A<s>"
    configure(folder, chat_template=[{"name": "tool_use", "template": "T"}, {"name": "default", "template": "D"}])
    assert load_chat_template(folder).render(TALK) == "D"
    (folder / "chat_template.jinja").write_text("J")
    assert load_chat_template(folder).render(TALK) == "J"


def test_special_tokens_are_put_once(folder: Path) -> None:
    """The template writes <s>; `encode` alone would put another one."""
    source = "{{ bos_token }}{% for m in messages %}<|{{ m.role }}|> {{ m.content }}{% endfor %}<|assistant|>"
    tokenizer = FileTokenizer(configure(folder, chat_template=source, bos_token="<s>") / "tokenizer.json")
    assert tokenizer.encode("hello") == [0, 4]
    talk = [{"role": "user", "content": "hello world"}]
    assert tokenizer.encode_chat(talk) == [0, 2, 4, 5, 3]
    assert openai.Call.parse({"messages": talk}, True, tokenizer).prompts == [[0, 2, 4, 5, 3]]


def test_without_a_template_messages_become_lines(folder: Path) -> None:
    tokenizer = FileTokenizer(folder / "tokenizer.json")
    call = openai.Call.parse({"messages": TALK[:1]}, True, tokenizer)
    assert call.prompts == ["system: Be brief.\nassistant:"]
    with pytest.raises(BadArgumentError, match="tools: expected nothing"):
        openai.Call.parse({"messages": TALK, "tools": TOOLS}, True, tokenizer)
    with pytest.raises(BadArgumentError, match="a checkpoint with a chat template"):
        tokenizer.encode_chat(TALK)


def test_what_the_template_refuses_is_told() -> None:
    template = ChatTemplate("{{ raise_exception('roles must alternate') }}")
    with pytest.raises(BadArgumentError, match="roles must alternate"):
        template.render(TALK)


@pytest.mark.parametrize(
    "source",
    [
        "{{ ''.__class__.__mro__[1].__subclasses__() }}",
        "{{ messages.append(1) }}",
        "{% include '/etc/passwd' %}",
        "{{ (1).__class__.__base__ }}",
    ],
)
def test_a_template_reaches_nothing_but_the_conversation(source: str) -> None:
    with pytest.raises(BadArgumentError, match="messages: expected"):
        ChatTemplate(source).render(list(TALK))


def test_what_is_no_template_is_refused(folder: Path) -> None:
    with pytest.raises(BadArgumentError, match="a Jinja template"):
        ChatTemplate("{% for %}")
    (folder / "tokenizer_config.json").write_text("{")
    with pytest.raises(BadArgumentError, match=r"tokenizer_config.json: expected JSON"):
        load_chat_template(folder)
