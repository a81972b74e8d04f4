"""Workers on a Ray cluster: one actor per GPU, or per CPU slot, with the pair loaded once in each.

Ray itself comes with the extra ``ray`` and is imported here alone.
"""

from __future__ import annotations

import importlib.util
import io
import os
import socket
from collections.abc import Callable, Hashable, Sequence
from contextlib import ExitStack, redirect_stdout
from typing import Any

from vidcap.batch.jobs import Job
from vidcap.batch.requests import Request
from vidcap.batch.slots import Slots, find_slots
from vidcap.batch.workers import Outcome, Worker, WorkerDiedError
from vidcap.captioner import Captioner
from vidcap.errors import ModelError

#: Stand for a cluster that Ray finds by itself, or else a new one; for a new one in any case.
ANY_CLUSTER, NEW_CLUSTER = "auto", "local"

#: How long a cluster may take to accept a connection.
_PATIENCE_S = 10.0
_LOCAL_HINT = "--ray local starts one on this machine"


def check_ray() -> None:
    """Finds out whether Ray is there, without importing it.

    Raises:
        ModelError: it is not.
    """
    if importlib.util.find_spec("ray") is None:
        raise ModelError(
            "--ray needs Ray, which is not installed", hint="pip install 'vidcap[ray]'"
        )


def _check_answers(address: str) -> None:
    """Knocks at a cluster's door, because Ray itself waits a minute for it to open.

    Raises:
        ModelError: nobody is there.
    """
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), _PATIENCE_S).close()
    except (OSError, OverflowError) as error:
        raise ModelError(
            f"no Ray cluster answers at {address}: {error}", hint=_LOCAL_HINT
        ) from error


class _Silence(io.TextIOBase):
    """A stream that lets nothing through."""

    def write(self, text: str) -> int:
        return len(text)


class RayPool:
    """Workers that are Ray actors.

    Args:
        address: ``auto``, ``local`` (a new cluster on this machine) or ``HOST:PORT``.
        device, threads, need: see :func:`vidcap.batch.slots.find_slots`.
        recipe: gets the slots and returns what makes a captioner in a worker; that is sent there.

    Attributes:
        slots: the places for workers.
        size: how many there are.

    Raises:
        ModelError: there is no such cluster, or no room in it.
    """

    def __init__(
        self,
        address: str,
        *,
        device: str,
        threads: int | None,
        need: int,
        recipe: Callable[[Slots], Callable[[], Captioner]],
    ):
        self._exits = ExitStack()
        try:
            self._ray = self._connect(address)
            machines = [node["Resources"] for node in self._ray.nodes() if node["Alive"]]
            self.slots = find_slots(machines, device, threads, need)
            self._actor = self._ray.remote(
                num_cpus=self.slots.cpus,
                num_gpus=self.slots.gpus,
                memory=self.slots.memory or None,
                max_restarts=0,
                max_task_retries=0,
            )(Worker)
            self._make = recipe(self.slots)
        except BaseException:
            self._exits.close()
            raise
        self.size = self.slots.count

    def start(self) -> tuple[Any, Hashable]:
        """A new actor, and the ticket of its loading the pair."""
        actor = self._actor.remote(self._make)
        return actor, actor.load.remote()

    def submit(self, worker: Any, job: Job, requests: Sequence[Request]) -> Hashable:
        """Gives a video to an actor."""
        ticket: Hashable = worker.answer.remote(job, requests)
        return ticket

    def wait(self, tickets: Sequence[Any], seconds: float) -> Sequence[Hashable]:
        """Those that are done; at least one, unless so many seconds passed."""
        done: list[Hashable] = self._ray.wait(list(tickets), timeout=seconds)[0]
        return done

    def outcome(self, ticket: Any) -> Outcome:
        """What became of it.

        Raises:
            WorkerDiedError: the actor is gone.
        """
        errors = self._ray.exceptions
        try:
            outcome: Outcome = self._ray.get(ticket)
        except (errors.RayActorError, errors.ObjectLostError, errors.OutOfMemoryError) as error:
            raise WorkerDiedError(str(error)) from error
        return outcome

    def close(self) -> None:
        """Leaves the cluster, which ends the actors; one that was started for this run ends too."""
        self._exits.close()

    def _connect(self, address: str) -> Any:
        """Ray, connected. What it has to say never gets onto standard output."""
        self._exits.enter_context(redirect_stdout(_Silence()))
        # Ray would report to its makers how it is used.
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        check_ray()
        if address not in (ANY_CLUSTER, NEW_CLUSTER):
            _check_answers(address)
        import ray

        # A cluster of this machine alone has no business on the network.
        alone: dict[str, Any] = {"_node_ip_address": "127.0.0.1", "include_dashboard": False}
        try:
            ray.init(
                address=None if address == ANY_CLUSTER else address,
                logging_level="ERROR",
                log_to_driver=False,
                **(alone if address == NEW_CLUSTER else {}),
            )
        except Exception as error:
            words = " ".join(str(error).split()) or type(error).__name__
            raise ModelError(
                f"cannot reach the Ray cluster: {words}",
                hint=_LOCAL_HINT,
            ) from error
        self._exits.callback(ray.shutdown)
        return ray
