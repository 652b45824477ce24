"""The layers as they are built for Lambda: the right platform, complete, small, the same every time."""

import importlib.util
import json
import marshal
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from bench.certificates import make_authority
from infra.constructs import bundling
from logflume.errors import ConfigurationError
from tests.infra.synthesis import FLAGS

ELF_MACHINES = {"x86_64": 62, "arm64": 183}  # e_machine (System V ABI)
MAX_ZIPPED_MB = 12
UNCHECKED_HASH = 0b01  # PEP 552


@pytest.fixture(scope="module", params=sorted(ELF_MACHINES))
def architecture(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def python(architecture: str) -> Path:
    return bundling.dependencies(architecture) / "python"


def test_every_shared_object_is_for_the_functions_architecture(architecture: str, python: Path) -> None:
    objects = list(python.rglob("*.so"))
    machines = {int.from_bytes(path.read_bytes()[18:20], "little") for path in objects}
    assert machines == {ELF_MACHINES[architecture]}
    assert {path.relative_to(python).parts[0] for path in objects} >= {"isal", "msgpack", "msgspec", "backports"}


def test_every_requirement_is_in_the_layer_at_its_locked_version(python: Path) -> None:
    lines = bundling.REQUIREMENTS.read_text().splitlines()
    locked = {line.split()[0].lower().replace("-", "_") for line in lines if "==" in line}
    found = {path.name.removesuffix(".dist-info").lower().replace("-", "==") for path in python.glob("*.dist-info")}
    assert found == locked
    assert all((path / "METADATA").is_file() for path in python.glob("*.dist-info"))


def test_what_is_never_imported_is_left_out(python: Path) -> None:
    unwanted = [path for path in python.rglob("*") if path.suffix in (".pyi", ".pyx", ".h")]
    assert not unwanted
    assert not (python / "bin").exists()


def test_every_module_has_byte_code_that_is_taken_without_looking_at_its_source(python: Path) -> None:
    for folder in (python, bundling.library() / "python"):
        sources = list(folder.rglob("*.py"))
        assert sources
        for source in sources:
            code = Path(importlib.util.cache_from_source(source)).read_bytes()
            assert code[:4] == importlib.util.MAGIC_NUMBER
            assert int.from_bytes(code[4:8], "little") == UNCHECKED_HASH
            compiled = marshal.loads(code[16:])  # noqa: S302 - made here
            assert compiled.co_filename == f"/opt/python/{source.relative_to(folder)}"


def test_nothing_in_the_layer_names_the_machine_that_built_it(python: Path) -> None:
    here = str(bundling.ROOT).encode()
    assert not [path for path in python.rglob("*") if path.is_file() and here in path.read_bytes()]


def test_the_zipped_layer_is_small(python: Path, tmp_path: Path) -> None:
    archive = tmp_path / "layer.zip"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as zipped:
        for path in python.rglob("*"):
            zipped.write(path, path.relative_to(python.parent))
    assert archive.stat().st_size < MAX_ZIPPED_MB * 1_000_000


def test_the_layer_is_built_once_and_needs_no_network_then(
    architecture: str, python: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    assert bundling.dependencies(architecture) / "python" == python


def test_changed_requirements_are_installed_again_and_a_failure_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = tmp_path / "requirements.txt"
    wrong.write_text("msgpack==1.2.4 --hash=sha256:" + "0" * 64 + "\n")
    monkeypatch.setattr(bundling, "REQUIREMENTS", wrong)
    monkeypatch.setattr(bundling, "BUILT", tmp_path / "built")
    with pytest.raises(ConfigurationError, match="uv could not install"):
        bundling.dependencies("arm64")
    assert not list((tmp_path / "built").iterdir())


def test_without_uv_it_is_said_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bundling, "BUILT", tmp_path / "built")
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    monkeypatch.setenv("PATH", "")
    with pytest.raises(ConfigurationError, match=r"uv is missing.*infra/setup\.sh"):
        bundling.dependencies("arm64")


def test_the_library_layer_holds_the_package_and_the_pipeline_beside_it() -> None:
    python = bundling.library() / "python"
    assert (python / "pipeline.toml").read_bytes() == bundling.PIPELINE.read_bytes()
    assert (python / "logflume" / "errors.py").read_bytes() == (bundling.LIBRARY / "logflume/errors.py").read_bytes()


def test_the_authority_of_a_private_certificate_lies_beside_the_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bundling, "BUILT", tmp_path / "built")
    ca_file = make_authority(tmp_path).ca_file
    layer = bundling.library(ca_file)
    assert (layer / "python" / ca_file.name).read_bytes() == ca_file.read_bytes()
    assert layer != bundling.library()
    renewed = make_authority(tmp_path).ca_file
    assert bundling.library(renewed) != layer


def test_what_tools_left_in_the_sources_is_not_shipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(bundling.LIBRARY, tmp_path / "python")
    monkeypatch.setattr(bundling, "LIBRARY", tmp_path / "python")
    monkeypatch.setattr(bundling, "BUILT", tmp_path / "built")
    before = bundling.library()
    for name in (".mypy_cache/3.13/cache.db", "__pycache__/errors.cpython-312.pyc", ".DS_Store"):
        file = tmp_path / "python/logflume" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"left behind")
    assert bundling.library() == before
    shutil.rmtree(before)
    assert not [path for path in bundling.library().rglob("*") if path.name in (".mypy_cache", ".DS_Store", "cache.db")]
    assert not list(bundling.library().rglob("*312.pyc"))


@pytest.mark.parametrize("change", ["code", "pipeline"])
def test_a_change_of_code_or_pipeline_makes_another_library_layer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    shutil.copytree(bundling.LIBRARY, tmp_path / "python", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(bundling.PIPELINE, tmp_path)
    monkeypatch.setattr(bundling, "LIBRARY", tmp_path / "python")
    monkeypatch.setattr(bundling, "PIPELINE", tmp_path / "pipeline.toml")
    monkeypatch.setattr(bundling, "BUILT", tmp_path / "built")
    before = bundling.library()
    assert bundling.library() == before
    changed = tmp_path / ("pipeline.toml" if change == "pipeline" else "python/logflume/errors.py")
    changed.write_text(changed.read_text() + "# changed\n")
    after = bundling.library()
    assert after != before
    assert (
        "# changed" in (after / "python" / changed.relative_to(tmp_path).as_posix().removeprefix("python/")).read_text()
    )


def test_folders_that_nobody_used_for_long_are_removed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(bundling, "BUILT", tmp_path)
    for age in range(bundling.KEPT + 3):
        (tmp_path / f"library-{age:016x}").mkdir()
        os.utime(tmp_path / f"library-{age:016x}", (1e9 - age, 1e9 - age))
    (tmp_path / "dependencies-arm64-1").mkdir()
    newest = bundling.library()
    kept = {newest.name, "dependencies-arm64-1"} | {f"library-{age:016x}" for age in range(bundling.KEPT - 1)}
    assert {path.name for path in tmp_path.iterdir()} == kept


def test_the_app_synthesises_without_network_account_or_docker(tmp_path: Path) -> None:
    for architecture in ELF_MACHINES:
        bundling.dependencies(architecture)
    bundling.library()
    nowhere = dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"), "http://127.0.0.1:9")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "CDK_"))}
    context = json.dumps(FLAGS | {"profile": "local"})
    done = subprocess.run(
        [sys.executable, "-m", "infra.app"],
        cwd=bundling.ROOT,
        env=kept
        | nowhere
        | {"CDK_OUTDIR": str(tmp_path), "CDK_CONTEXT_JSON": context, "AWS_EC2_METADATA_DISABLED": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    layers = [folder for folder in tmp_path.glob("asset.*") if (folder / "python").is_dir()]
    assert {(folder / "python/logflume").is_dir() for folder in layers} == {True, False}
    assert all((folder / "python").is_dir() for folder in tmp_path.glob("asset.*") if list(folder.rglob("*.pyc")))
