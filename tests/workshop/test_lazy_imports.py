"""Heavy libraries are loaded by those who use them, and by nobody else."""

import keras

HEAVY = ("tensorflow", "jax", "torch", "matplotlib", "tensorboard", "keras_hub")

# `None` in sys.modules makes an import fail as if the library were not installed. Keras
# itself loads matplotlib where it finds it, so to look for it afterwards is no proof.
WITHOUT_THE_OTHERS = """
import sys
sys.modules.update(dict.fromkeys({absent}))
import gradwatch
gradwatch.gradients
print(*sorted(m for m in sys.modules if m.startswith("gradwatch.backends.")))
"""


# What only reads a run: TensorBoard's server, the report, most of the command line.
READERS = """
import sys
sys.modules.update(dict.fromkeys({absent}))
import gradwatch
from gradwatch.diagnose import RuleEngine
from gradwatch.show import table_html
print(gradwatch.diagnose, gradwatch.open_run, "gradients" in dir(gradwatch))
"""


def test_reading_a_run_needs_no_keras_and_no_framework(python):
    """Nobody waits seconds for a framework in order to look at numbers on disk."""
    done = python("-c", READERS.format(absent=[*HEAVY, "keras"]))
    assert done.returncode == 0, done.stderr
    # The room `diagnose` and the function of that name: the door has the function.
    assert done.stdout.startswith("<function diagnose"), done.stdout
    assert done.stdout.strip().endswith("True")


def test_inspecting_needs_no_other_framework_and_no_plotting(python):
    """With the other backends and matplotlib not installed it still works."""
    mine = keras.config.backend()
    absent = [name for name in HEAVY if name != mine]
    done = python("-c", WITHOUT_THE_OTHERS.format(absent=absent))
    assert done.returncode == 0, done.stderr
    others = {"tensorflow", "jax", "torch"} - {mine}
    loaded = {module.split(".")[2].lstrip("_") for module in done.stdout.split()}
    assert not loaded & others
