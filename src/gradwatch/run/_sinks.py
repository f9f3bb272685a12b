"""Sinks: experiment trackers that receive the numbers of a run as well."""

from __future__ import annotations

import itertools
import re
import time
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from ._error import RunError, needing


@runtime_checkable
class Sink(Protocol):
    """An object that receives numbers step by step, through these three methods.

    Example:
    >>> class Printer:
    ...     def start(self, info):
    ...         print("start", info)
    ...
    ...     def write(self, step, numbers):
    ...         print(step, numbers)
    ...
    ...     def close(self):
    ...         print("close")
    >>> isinstance(Printer(), Sink)
    True
    """

    def start(self, info: dict[str, Any]) -> None:
        """Begins, with facts of the run: the model, and the watched variables."""

    def write(self, step: int, numbers: dict[str, float]) -> None:
        """Receives the numbers of a step by name, such as `conv1/kernel/norm`."""

    def close(self) -> None:
        """Ends; no call follows."""


class Sinks:
    """Several sinks as one, whose failures do not end a training run.

    A sink that raises gives one warning. It is called again at the next step: the
    server that it could not reach may be back by then.

    Example:
    >>> group = Sinks([])
    >>> group.write(0, {"gradients/global_norm": 0.5})

    Args:
        sinks: The sinks.
    """

    def __init__(self, sinks: Iterable[Sink] = ()) -> None:
        self._sinks = tuple(sinks)
        for sink in self._sinks:
            if not isinstance(sink, Sink):
                raise RunError(
                    "`sinks` must have the methods `start`, `write` and `close` each. "
                    f"Received: an object of type {type(sink).__name__}. See "
                    "`gradwatch.run.Sink`."
                )
        self._warned: set[int] = set()

    def start(self, info: Mapping[str, Any]) -> None:
        """Begins all of them."""
        self._each("start", lambda sink: sink.start(dict(info)))

    def write(self, step: int, numbers: Mapping[str, float]) -> None:
        """Passes on the numbers of a step."""
        self._each(f"write step {step}", lambda sink: sink.write(step, dict(numbers)))

    def close(self) -> None:
        """Ends all of them."""
        self._each("close", lambda sink: sink.close())

    def __len__(self) -> int:
        return len(self._sinks)

    def _each(self, what: str, do: Callable[[Sink], None]) -> None:
        for position, sink in enumerate(self._sinks):
            try:
                do(sink)
            except Exception as error:  # noqa: BLE001 - trackers raise what they like
                if position not in self._warned:
                    self._warned.add(position)
                    warnings.warn(
                        f"{type(sink).__name__} could not {what}: "
                        f"{type(error).__name__}: {error}. Training goes on, and the "
                        "run on disk is complete. This is said once.",
                        RuntimeWarning,
                        stacklevel=3,
                    )


def _not_started() -> RunError:
    return RunError(
        "`start` must come before `write`. Received: a step before any run. Look for "
        "the error that `start` raised."
    )


class WandbSink:
    """Logs to Weights & Biases. Needs `pip install "gradwatch[wandb]"`.

    The steps are a metric of their own, `gradwatch/step`, against which the others are
    drawn: a run's own counter is moved on by whatever else is logged to it.

    Example:
    >>> sink = WandbSink(project="demo", mode="offline")

    Args:
        run: A run that was begun already; it is left open at the end. By default one is
            begun when training starts, and finished with it.
        **init: Arguments of `wandb.init` for a new run.
    """

    def __init__(self, run: Any = None, **init: Any) -> None:
        if run is not None and init:
            raise RunError(
                "`run` must be left out where a new run is described. Received: a run "
                f"and {', '.join(sorted(init))}. Give one or the other."
            )
        self._run = run
        self._init = init
        self._own = run is None
        self._defined: set[str] = set()

    def start(self, info: dict[str, Any]) -> None:
        """Begins a run if none was given, and puts the facts into its config."""
        if self._run is None:
            with needing("wandb", "wandb", "`WandbSink`"):
                import wandb
            self._run = wandb.init(**self._init)
        self._run.config.update({"gradwatch": info}, allow_val_change=True)

    def write(self, step: int, numbers: dict[str, float]) -> None:
        """Logs the numbers of a step."""
        if self._run is None:
            raise _not_started()
        for name in numbers.keys() - self._defined:
            self._run.define_metric(name, step_metric="gradwatch/step")
            self._defined.add(name)
        self._run.log({"gradwatch/step": step, **numbers})

    def close(self) -> None:
        """Finishes the run if it was begun here."""
        if self._own and self._run is not None:
            self._run.finish()
            self._run = None


_METRICS = 1000  # in one request, by the rules of MLflow's server


@dataclass(eq=False, repr=False)
class MlflowSink:
    """Logs to MLflow. Needs `pip install "gradwatch[mlflow]"`.

    MLflow allows fewer characters in a name than an address may have: `conv#2` and
    `conv@2` are `conv-2` there, and never two names the same.

    Example:
    >>> sink = MlflowSink(experiment="demo")

    Args:
        run_id: A run that was begun already; it is left open at the end. By default the
            active one, and where there is none a new one, ended with training.
        tracking_uri: The tracking server (default: the one MLflow is set to).
        experiment: The experiment of a new run, made if need be.
    """

    run_id: str | None = None
    tracking_uri: str | None = None
    experiment: str | None = None
    _client: Any = field(init=False, default=None)
    _own: bool = field(init=False, default=False)
    _names: dict[str, str] = field(init=False, default_factory=dict)

    def start(self, info: dict[str, Any]) -> None:
        """Begins a run if there is none, and notes the facts as tags."""
        with needing("mlflow", "mlflow", "`MlflowSink`"):
            import mlflow
        self._client = mlflow.MlflowClient(tracking_uri=self.tracking_uri)
        active = mlflow.active_run()
        if self.run_id is None and active is not None:
            self.run_id = active.info.run_id
        elif self.run_id is None:
            run = self._client.create_run(self._experiment_id())
            self.run_id, self._own = run.info.run_id, True
        for key, value in info.items():
            # A tag has at most 5,000 characters.
            self._client.set_tag(self.run_id, f"gradwatch.{key}", str(value)[:5000])

    def _experiment_id(self) -> str:
        if self.experiment is None:
            return "0"  # the one that always exists
        known = self._client.get_experiment_by_name(self.experiment)
        if known is not None:
            return str(known.experiment_id)
        return str(self._client.create_experiment(self.experiment))

    def write(self, step: int, numbers: dict[str, float]) -> None:
        """Logs the numbers of a step."""
        if self._client is None:
            raise _not_started()
        from mlflow.entities import Metric

        now = int(time.time() * 1000)
        metrics = [
            Metric(self._name(name), number, now, step)
            for name, number in numbers.items()
        ]
        for first in range(0, len(metrics), _METRICS):
            batch = metrics[first : first + _METRICS]
            self._client.log_batch(self.run_id, metrics=batch)

    def _name(self, name: str) -> str:
        """Returns the name in MLflow, which no other name has."""
        if name not in self._names:
            plain = re.sub(r"[^\w\-./ ]", "-", name, flags=re.ASCII).strip("-")
            numbered = (f"{plain}-{number}" for number in itertools.count(2))
            keys, taken = itertools.chain([plain], numbered), {*self._names.values()}
            self._names[name] = next(key for key in keys if key not in taken)
        return self._names[name]

    def close(self) -> None:
        """Ends the run if it was begun here."""
        if self._own and self._client is not None:
            self._client.set_terminated(self.run_id)
            self._client, self._own = None, False
