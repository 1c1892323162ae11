"""The values for Zero to JupyterHub fit the chart's own schema.

zero_to_jupyterhub.schema.json is jupyterhub/values.schema.yaml of jupyterhub/zero-to-jupyterhub-k8s at commit
48ea50e34daddde55d76e30df6ecd47e4abd4d8e, without its descriptions; its licence lies beside it.
"""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

yaml = pytest.importorskip("yaml")
jsonschema = pytest.importorskip("jsonschema")

HERE = Path(__file__).parent
DEPLOY = HERE.parent.parent / "deploy" / "kubernetes"
SCHEMA = json.loads((HERE / "zero_to_jupyterhub.schema.json").read_text())


@pytest.fixture
def values() -> dict[str, Any]:
    return dict(yaml.safe_load((DEPLOY / "values.yaml").read_text()))


def test_the_values_fit_the_charts_schema(values: dict[str, Any]) -> None:
    # A chart's values are merged over its defaults, which hold what the schema requires; ours need not repeat it.
    errors = [
        error for error in jsonschema.Draft7Validator(SCHEMA).iter_errors(values) if error.validator != "required"
    ]
    assert not errors, [f"{'/'.join(map(str, error.path))}: {error.message}" for error in errors]


@pytest.mark.parametrize(
    ("path", "value"),
    [(("singleuser", "memory", "limits"), "3G"), (("cull", "timeout"), "an hour"), (("singleuser", "nonsense"), 1)],
)
def test_the_schema_refuses_what_is_wrong(values: dict[str, Any], path: tuple[str, ...], value: object) -> None:
    broken = copy.deepcopy(values)
    *way, last = path
    place = broken
    for name in way:
        place = place[name]
    place[last] = value
    assert any(error.validator != "required" for error in jsonschema.Draft7Validator(SCHEMA).iter_errors(broken))


def test_profiles_ask_for_what_the_device_plugin_offers(values: dict[str, Any]) -> None:
    profiles = {each["slug"]: each.get("kubespawner_override", {}) for each in values["singleuser"]["profileList"]}
    assert set(profiles) == {"cpu", "h100-mig", "h100-shared", "b200"}
    sharing = yaml.safe_load(yaml.safe_load((DEPLOY / "gpu-sharing.yaml").read_text())["data"]["shared"])
    (resource,) = sharing["sharing"]["timeSlicing"]["resources"]
    assert sharing["sharing"]["timeSlicing"]["renameByDefault"], (
        "renamed to gpu.shared, so that nobody takes it for a GPU"
    )
    assert profiles["h100-shared"]["extra_resource_limits"] == {f"{resource['name']}.shared": "1"}
    assert not profiles["cpu"].get("extra_resource_limits")
    for slug in ("h100-mig", "h100-shared", "b200"):
        assert profiles[slug]["node_selector"]["nvidia.com/gpu.product"].startswith("NVIDIA-")
