"""The command as a shell sees it: help, completion, pipes, other processes."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.shell_completion import ShellComplete

from gradwatch.cli import main
from gradwatch.cli._main import COMMANDS

SOURCE = Path(__file__).parents[2] / "src"
PAGE = Path(__file__).parents[2] / "docs" / "command-line.md"


def command(*arguments, **env):
    """Runs `gradwatch …` in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "gradwatch", *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": str(SOURCE), **env},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


def commands():
    context = click.Context(main)
    return {name: main.get_command(context, name) for name in COMMANDS}


def test_help_lists_every_command(gradwatch):
    """With one line each, none of them cut off."""
    said = gradwatch("--help")
    assert said.exit_code == 0
    for name, result in commands().items():
        line = result.get_short_help_str(99)
        assert re.search(rf"^  {name} +{re.escape(line)}$", said.output, re.MULTILINE)
        assert not line.endswith("...")


@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_has_examples_and_knows_debug(gradwatch, name):
    """Two at least, which can be copied: they have the options that there are."""
    said = gradwatch(name, "--help")
    assert said.exit_code == 0
    text = said.output.replace("\\\n", " ")
    examples = re.findall(rf"^ +gradwatch ({name} .*)$", text, re.MULTILINE)
    assert len(examples) >= 2
    known = {opt for param in commands()[name].params for opt in param.opts}
    for example in examples:
        used = re.findall(r"(?<= )(--?[a-z][a-z-]*)", example)
        assert set(used) <= known
    assert "--debug" in said.output


def test_the_page_knows_every_command_and_no_other_option():
    """Each command has a heading and a line of real output."""
    page = PAGE.read_text(encoding="utf-8")
    for name, result in commands().items():
        assert f"\n## {name}\n" in page
        used = re.findall(rf"^\$ gradwatch {name} (.*)$", page, re.MULTILINE)
        assert used, name
        known = {opt for param in result.params for opt in param.opts}
        options = set(re.findall(r"(?<= )(--?[a-z][a-z-]*)", f" {' '.join(used)}"))
        assert options <= known


def test_unsafe_loading_says_what_it_allows(gradwatch):
    """In the help, in words that nobody can misread."""
    said = " ".join(gradwatch("inspect", "--help").output.split())
    assert "allows the file to run any code that is stored in it" in said


def test_help_and_readers_need_no_keras(runs, tmp_path):
    """With every framework and Keras not installed they work: nobody waits for one."""
    absent = ["keras", "tensorflow", "jax", "torch", "matplotlib"]
    script = f"""
import sys
sys.modules.update(dict.fromkeys({absent}))
from click.testing import CliRunner
from gradwatch.cli import main
a, b = {runs.a!r}, {runs.b!r}
for line in (["--help"], ["inspect", "--help"], ["watch", a], ["watch", a, "--once"],
             ["report", a, "-o", "r.html"], ["diff", a, b], ["diagnose", a],
             ["export", a, "-o", "a.csv"]):
    said = CliRunner().invoke(main, line)
    assert said.exit_code in (0, 1) and "Error" not in said.output, (line, said.output)
    if line == ["inspect", "--help"]:
        heavy = {{"rich.console", "google.protobuf", "tensorboard"}} & set(sys.modules)
        assert not heavy, heavy
"""
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_the_backend_is_chosen_before_keras_starts(files, tmp_path):
    """A Keras that tells what it finds, and is not there."""
    (tmp_path / "keras.py").write_text(
        "import os\n"
        "print(os.environ['KERAS_BACKEND'], os.environ['TF_CPP_MIN_LOG_LEVEL'])\n"
        "raise ImportError('enough')\n"
    )
    path = os.pathsep.join([str(tmp_path), str(SOURCE)])
    env = {"PYTHONPATH": path, "KERAS_BACKEND": "jax", "TF_CPP_MIN_LOG_LEVEL": "1"}
    done = command("layers", files.root / "small.keras", "--backend", "torch", **env)
    assert done.returncode == 2
    assert done.stdout == "torch 1\n"  # what was set by hand stays
    assert 'pip install "gradwatch[torch]"' in done.stderr


def test_a_framework_that_is_missing_is_named(files, tmp_path):
    """With the extra that brings it, and another way."""
    script = f"""
import sys
sys.modules["jax"] = None
from gradwatch.cli import main
main(["layers", {str(files.root / "small.keras")!r}, "--backend", "jax"])
"""
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert 'pip install "gradwatch[jax]"' in done.stderr
    assert "Traceback" not in done.stderr


def test_a_pipe_that_closes_is_no_error(runs):
    """`gradwatch export … | head -1` is silent."""
    line = [sys.executable, "-m", "gradwatch", "report", runs.a, "--format", "json"]
    reading, writing = os.pipe()
    os.close(reading)  # nobody reads: the first write fails
    env = {**os.environ, "PYTHONPATH": str(SOURCE)}
    done = subprocess.run(
        line, stdout=writing, stderr=subprocess.PIPE, text=True, env=env, check=False
    )
    os.close(writing)
    assert done.stderr == ""


# completion ---------------------------------------------------------------------------


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_has_a_script(shell):
    """It asks the command itself what to offer."""
    if shell == "bash" and shutil.which("bash") is None:
        pytest.skip("click asks bash for its version")
    done = command(_GRADWATCH_COMPLETE=f"{shell}_source")
    assert done.returncode == 0
    assert f"{shell}_complete" in done.stdout


def completions(*words):
    """What bash would offer for the last of the words."""
    complete = ShellComplete(main, {}, "gradwatch", "_GRADWATCH_COMPLETE")
    return [
        item.value for item in complete.get_completions(list(words[:-1]), words[-1])
    ]


def test_a_shell_is_told_the_commands():
    """By a process of its own, as the script does it."""
    done = command(
        _GRADWATCH_COMPLETE="bash_complete", COMP_WORDS="gradwatch ", COMP_CWORD="1"
    )
    offered = [line.partition(",")[2] for line in done.stdout.splitlines()]
    assert offered == list(COMMANDS)


def test_runs_are_offered(runs, monkeypatch):
    """By a part of the path, from here or from elsewhere; else directories."""
    assert completions("watch", f"{runs.root}/") == [runs.a, runs.b]
    monkeypatch.chdir(Path(runs.root).parent)
    name = Path(runs.root).name
    assert completions("diff", f"{name}/a", name) == [f"{name}/a", f"{name}/b"]
    monkeypatch.chdir(runs.root)
    assert completions("report", "a", "") == ["a", "b"]
    assert completions("export", "b") == ["b"]
    assert completions("export", "nowhere") == ["nowhere"]


def test_methods_layers_and_symptoms_are_offered(files):
    """Layers by the file's own list, without loading the model."""
    assert completions("attribute", "m.keras", "--method", "grad") == [
        "grad_cam",
        "grad_cam_plus_plus",
    ]
    model = str(files.root / "small.keras")
    offered = completions("attribute", model, "--layer", "")
    assert offered == ["conv", "pool", "logits"]
    assert completions("attribute", "nowhere", "--layer", "") == []
    assert completions("diagnose", "runs/a", "--ignore", "van") == [
        "vanishing",
        "vanishing-time",
    ]
