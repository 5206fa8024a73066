"""Engines in pods of Kubernetes on this machine, and in Deployments that were scaled to 0; one question to kubectl."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from sparkgate.discover.owners import ASK_S, Owner, silence
from sparkgate.discover.signs import port_of
from sparkgate.engines.spec import line
from sparkgate.machine.commands import Run
from sparkgate.runtimes.kubernetes import kubectl
from sparkgate.runtimes.owner import at, listed, number, pairs, parsed, texts

CLUSTER_LIST = ("get", "deployments,pods,services", "-A", "-o", "json")


@dataclass(frozen=True, slots=True)
class Workload:
    """A container of a pod, or of a Deployment without pods.

    `id` is that of its container, "" when none runs; `name` is namespace/name. `address` is the (host, port) at which
    this machine reaches it, None when nothing tells.
    """

    name: str
    owner: Owner
    image: str
    argv: tuple[str, ...]
    id: str
    address: tuple[str, int] | None


def workloads(run: Run, here: Iterable[str]) -> tuple[list[Workload], str]:
    """Containers of pods on this machine (`here` are their ids) and of Deployments at 0; then why not all is told."""
    ended = kubectl(run, CLUSTER_LIST, ASK_S)
    items = [one for one in listed(parsed(ended.stdout), "items") if isinstance(one, dict)]
    services, local = _of(items, "Service"), set(here)
    pods = [one for pod in _of(items, "Pod") for one in _workloads(pod, pod, _owner_of_pod(pod), services)]
    asleep = [one for one in _of(items, "Deployment") if not number(one, "spec", "replicas")]
    stopped = [
        one
        for found in asleep
        for one in _workloads(found, at(found, "spec", "template"), Owner("kubernetes", _name(found)), services)
    ]
    return [one for one in pods if one.id in local] + stopped, silence("kubectl", ended, needed=True)


def _workloads(named: Any, template: Any, owner: Owner, services: Iterable[Any]) -> Iterator[Workload]:
    """`template` is the pod itself, or the template of pods in a Deployment."""
    ids = {
        at(one, "name"): line(at(one, "containerID")).rpartition("/")[2]
        for one in listed(named, "status", "containerStatuses")
    }
    mine = [one for one in services if _selects(one, at(named, "metadata", "namespace"), template)]
    for one in listed(template, "spec", "containers"):
        argv = (*texts(one, "command"), *texts(one, "args"))
        yield Workload(
            name=_name(named),
            owner=owner,
            image=line(at(one, "image")),
            argv=argv,
            id=ids.get(at(one, "name"), ""),
            address=_address(one, port_of(argv), at(template, "spec", "hostNetwork") is True, mine),
        )


def _selects(service: Any, namespace: Any, template: Any) -> bool:
    selector = pairs(service, "spec", "selector")
    same = at(service, "metadata", "namespace") == namespace
    return same and bool(selector) and selector.items() <= pairs(template, "metadata", "labels").items()


def _address(
    container: Any, named: int | None, on_host: bool, services: Iterable[Mapping[str, Any]]
) -> tuple[str, int] | None:
    """On this machine itself, or at the Service before the pods, whose address stays when they come and go."""
    port = named or number(container, "ports", 0, "containerPort")
    host_port = number(container, "ports", 0, "hostPort") or (port if on_host else 0)
    if host_port:
        return "127.0.0.1", host_port
    for service in services:
        address = line(at(service, "spec", "clusterIP"))
        inside = {port, at(container, "ports", 0, "name")}
        ports = listed(service, "spec", "ports")
        fits = [one for one in ports if at(one, "targetPort") in inside or (at(one, "port") == port)] or ports[:1]
        if address not in ("", "None") and fits:
            return f"[{address}]" if ":" in address else address, number(fits[0], "port")
    return None


def _owner_of_pod(pod: Any) -> Owner:
    """The Deployment of a pod: its ReplicaSet is named after it and the hash of its template."""
    kind, name = (line(at(pod, "metadata", "ownerReferences", 0, key)) for key in ("kind", "name"))
    hash_ = pairs(pod, "metadata", "labels").get("pod-template-hash", "")
    if kind == "ReplicaSet" and hash_ and name.endswith(f"-{hash_}"):
        return Owner("kubernetes", f"{line(at(pod, 'metadata', 'namespace'))}/{name.removesuffix(f'-{hash_}')}")
    return Owner(notes=(f"its pod {_name(pod)} is of no Deployment, so it is only watched",))


def _name(one: Any) -> str:
    return f"{line(at(one, 'metadata', 'namespace'))}/{line(at(one, 'metadata', 'name'))}"


def _of(items: Iterable[Any], kind: str) -> list[Any]:
    return [one for one in items if at(one, "kind") == kind]
