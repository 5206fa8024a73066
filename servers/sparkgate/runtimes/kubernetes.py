"""An engine as a Deployment of Kubernetes, k3s for one, reached through kubectl."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sparkgate.engines.spec import line
from sparkgate.machine.commands import Completed, Run
from sparkgate.runtimes.owner import (
    CGROUPS,
    FOR_MEMORY,
    Trouble,
    at,
    epoch_s,
    fault,
    for_memory,
    is_trouble,
    joined,
    listed,
    number,
    pairs,
    parsed,
    pids_in,
    printed,
    step,
    texts,
    told,
    traits,
    without_flag_values,
    words_of_exit,
)
from sparkgate.runtimes.spec import Look, Owned, Place, RuntimeFault

LOOK_S = 15.0
FORCED_S = 30.0
TROUBLES = (
    Trouble(r"\(Forbidden\)|is forbidden", "forbidden", "grant it the Role that `sparkgate engine role {name}` prints"),
    Trouble(
        "must be logged in|Unauthorized|permission denied",
        "unauthorized",
        "set KUBECONFIG for the gate to a file that its account may read (that of k3s is for root only)",
    ),
    Trouble(r"\(NotFound\)|not found", "absent", "check engines.{name}.unit: it is namespace/deployment"),
    Trouble("no matching resources found", "gone", "nothing is left to do"),
    Trouble("timed out waiting", "timeout", "see what keeps it: `kubectl describe pod`"),
    Trouble("was refused|Unable to connect|no such host|i/o timeout", "unreachable", "start it, or set KUBECONFIG"),
)
WAITS_IN_VAIN = (
    "CrashLoopBackOff",
    "ImagePullBackOff",
    "ErrImagePull",
    "ErrImageNeverPull",
    "InvalidImageName",
    "CreateContainerConfigError",
    "CreateContainerError",
    "RunContainerError",
)
"""Reasons for which a container waits and that do not pass by themselves."""
REVIVERS: tuple[tuple[str, str, str], ...] = (
    ("annotations", r"argocd\.argoproj\.io/", "Argo CD"),
    ("labels", r"argocd\.argoproj\.io/", "Argo CD"),
    ("labels", r"(?:kustomize|helm)\.toolkit\.fluxcd\.io/", "Flux"),
    ("annotations", r"meta\.helm\.sh/release-name", "Helm (at its next upgrade)"),
    ("labels", r"(?:scaledobject\.|autoscaling\.)?keda\.sh/", "KEDA"),
    ("annotations", r"(?:scaledobject\.|autoscaling\.)?keda\.sh/", "KEDA"),
    ("annotations", r"autoscaling\.(?:alpha\.)?kubernetes\.io/", "an autoscaler"),
)
"""(where, pattern of a key, who sets the number of replicas)."""
GITOPS = ("Argo CD", "Flux")
ITSELF = "Kubernetes, until it is scaled to 0"
_FORMS = {"In": "{key} in ({values})", "NotIn": "{key} notin ({values})", "Exists": "{key}", "DoesNotExist": "!{key}"}
_NO_POD = "sparkgate/none=none"
_ROLE = """\
# Bind it with: kubectl -n {namespace} create rolebinding sparkgate-engines --role=sparkgate-engines --user=NAME
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  name: sparkgate-engines
  namespace: {namespace}
rules:
  - apiGroups: ["apps"]
    resources: ["deployments"]
    verbs: ["get", "list"]
  - apiGroups: ["apps"]
    resources: ["deployments/scale"]
    verbs: ["get", "patch"]
  - apiGroups: [""]
    resources: ["pods"]
    verbs: ["get", "list", "watch", "delete"]
  - apiGroups: [""]
    resources: ["pods/log"]
    verbs: ["get"]
"""


def role_for(namespace: str) -> str:
    """The Role, as YAML, that is all a runtime needs in a namespace; `delete` is for a stop by force."""
    return _ROLE.format(namespace=namespace)


def namespace_of(unit: str) -> tuple[str, str]:
    """(namespace, Deployment) of "namespace/deployment"; without a namespace it is "default"."""
    namespace, slash, name = unit.partition("/")
    return (namespace, name) if slash else ("default", unit)


def kubectl(run: Run, words: Sequence[str], timeout_s: float) -> Completed:
    """Run kubectl, or the one inside k3s where there is no other."""
    ended = run(["kubectl", *words], timeout_s)
    return run(["k3s", "kubectl", *words], timeout_s) if ended.absent else ended


class KubernetesRuntime:
    """Owns the Deployment `entry.unit` ("namespace/deployment"): 1 replica is started, 0 is stopped.

    "running" means that a container runs, ready or not. `exit_code` and `killed_for_memory` tell of the last end of a
    container, also while it runs again. `restarts` counts those of the pods there are now. What has failed is tried
    again by Kubernetes until it is stopped, and a pod that was evicted is only told of in `detail`. `pids` are found in
    `cgroups`, when the pod runs on this machine.

    Traits: `strategy`, `gitops`, `replicas`, `ready`, `gpus`, `memory_limit`, `grace_s`, `waiting`, `unschedulable`.
    """

    def __init__(self, place: Place, cgroups: Path = CGROUPS) -> None:
        self._place, self._cgroups = place, cgroups
        self._namespace, self._name = namespace_of(place.entry.unit)

    def look(self) -> Look:
        ended = self._get()
        if is_trouble(ended, TROUBLES, "absent"):
            return Look("stopped", detail=f"there is no Deployment {self._place.entry.unit}")
        deployment = parsed(ended.stdout)
        if not ended.ok or not isinstance(deployment, dict):
            return Look("unknown", detail=told(self._place, ended, TROUBLES))
        ended = self._pods(deployment)
        if not ended.ok:
            return Look("unknown", detail=told(self._place, ended, TROUBLES))
        return self._read(_Seen(deployment, listed(parsed(ended.stdout), "items")))

    def start(self) -> None:
        """Ask for one replica.

        Raises:
            RuntimeFault: a code of `TROUBLES`.
        """
        ended = self._get()
        if ended.ok and number(parsed(ended.stdout), "spec", "replicas") > 0:
            return
        if ended.ok:
            ended = self._kubectl(*self._scale(1))
        if not ended.ok:
            raise fault(self._place, "Kubernetes did not start it", ended, TROUBLES)

    def stop(self, grace_s: float) -> None:
        """Ask for no replica, and wait until the pods are gone; they are deleted by force after `grace_s` seconds.

        Raises:
            RuntimeFault: `revived`, somebody has scaled it up again; `not_stopped`; or a code of `TROUBLES`.
        """
        ended = self._get()
        if is_trouble(ended, TROUBLES, "absent"):
            return
        deployment = parsed(ended.stdout)
        pods = ("pod", "-l", _selector(deployment))
        if ended.ok and number(deployment, "spec", "replicas") > 0:
            ended = self._kubectl(*self._scale(0))
        if not ended.ok:
            raise fault(self._place, "Kubernetes did not stop it", ended, TROUBLES)
        if not self._gone(pods, grace_s):
            self._kubectl("delete", *pods, "--grace-period=0", "--force", timeout_s=FORCED_S)
            self._gone(pods, FORCED_S)
        self._prove_stopped(deployment)

    def log(self, lines: int) -> Sequence[str]:
        """The log of the run before a crash, then that of the present one."""
        words = ("logs", f"deployment/{self._name}", "--tail", str(lines), "--all-containers")
        before = self._kubectl(*words, "--previous").stdout if self.look().restarts else ""
        return printed(before + "\n" + self._kubectl(*words).stdout)[-lines:]

    def steps(self) -> Sequence[str]:
        return [step(["kubectl", "-n", self._namespace, *self._scale(1)], self._place)]

    def _kubectl(self, *words: str, timeout_s: float = LOOK_S) -> Completed:
        return kubectl(self._place.run, ("-n", self._namespace, *words), timeout_s)

    def _get(self) -> Completed:
        return self._kubectl("get", "deployment", self._name, "-o", "json")

    def _pods(self, deployment: Any) -> Completed:
        return self._kubectl("get", "pods", "-l", _selector(deployment), "-o", "json")

    def _scale(self, replicas: int) -> tuple[str, ...]:
        return ("scale", f"deployment/{self._name}", f"--replicas={replicas}")

    def _gone(self, pods: Sequence[str], seconds: float) -> bool:
        """Wait for the end of all pods. Raises RuntimeFault when it cannot be waited for."""
        limit = f"--timeout={max(1, math.ceil(seconds))}s"
        ended = self._kubectl("wait", "--for=delete", *pods, limit, timeout_s=seconds + LOOK_S)
        if ended.ok or is_trouble(ended, TROUBLES, "gone") or is_trouble(ended, TROUBLES, "absent"):
            return True
        if is_trouble(ended, TROUBLES, "timeout"):
            return False
        raise fault(self._place, "Kubernetes does not tell when it has stopped", ended, TROUBLES)

    def _prove_stopped(self, deployment: Any) -> None:
        now = parsed(self._get().stdout)
        if number(now, "spec", "replicas") > 0:
            text = f"{_revived_by(now) or 'somebody'} has started {self._place.entry.unit} again: suspend that first"
            raise RuntimeFault("revived", f"{self._place.name}: {text}")
        pods = self._pods(deployment)
        if not pods.ok:
            raise fault(self._place, "Kubernetes does not tell whether it has stopped", pods, TROUBLES)
        left = [line(at(pod, "metadata", "name")) for pod in listed(parsed(pods.stdout), "items")]
        if left:
            raise RuntimeFault("not_stopped", f"{self._place.name}: there is still the pod {left[0]}")

    def _read(self, seen: _Seen) -> Look:
        last = (at(one, "state", "terminated") or at(one, "lastState", "terminated") for one in seen.containers)
        ends = [end for end in last if end]
        code = max((number(end, "exitCode") for end in ends), default=None)
        killed = for_memory(code, any(at(end, "reason") == "OOMKilled" for end in ends))
        spec = at(seen.deployment, "spec", "template", "spec", "containers", 0)
        starts = (epoch_s(at(one, "state", "running", "startedAt")) for one in seen.containers)
        return Look(
            seen.owned,
            pids=self._pids(seen.containers),
            since_s=max((one for one in starts if one), default=None),
            exit_code=code,
            killed_for_memory=killed,
            restarts=seen.restarts,
            revived_by=_revived_by(seen.deployment) or (ITSELF if seen.owned == "failed" else ""),
            image=line(at(spec, "image")),
            argv=without_flag_values([*texts(spec, "command"), *texts(spec, "args")]),
            environment={str(at(one, "name")): one["value"] for one in listed(spec, "env") if at(one, "value")},
            detail=_detail(seen, FOR_MEMORY if killed else words_of_exit(code)),
            traits=_traits(seen),
        )

    def _pids(self, containers: list[Any]) -> tuple[int, ...]:
        ids = [line(at(one, "containerID")).rpartition("/")[2] for one in containers if at(one, "state", "running")]
        folders = (folder for id_ in ids if id_.isalnum() for folder in self._cgroups.glob(f"kubepods*/**/*{id_}*"))
        return tuple(dict.fromkeys(pid for folder in folders for pid in pids_in(folder)))


@dataclass(frozen=True, slots=True)
class _Seen:
    """A Deployment and its pods, as kubectl gives them."""

    deployment: Any
    pods: list[Any]

    @property
    def wanted(self) -> int:
        return number(self.deployment, "spec", "replicas")

    @property
    def containers(self) -> list[Any]:
        return [one for pod in self.pods if not _lost(pod) for one in listed(pod, "status", "containerStatuses")]

    @property
    def restarts(self) -> int:
        return sum(number(one, "restartCount") for one in self.containers)

    @property
    def waiting(self) -> str:
        """Why a container waits, when that does not pass by itself."""
        first = [one for pod in self.pods for one in listed(pod, "status", "initContainerStatuses")]
        reasons = (at(one, "state", "waiting", "reason") for one in (*first, *self.containers))
        return next((reason for reason in reasons if reason in WAITS_IN_VAIN), "")

    @property
    def unschedulable(self) -> str:
        """Why no node takes a pod; "" when one did."""
        conditions = (one for pod in self.pods for one in listed(pod, "status", "conditions"))
        refused = (one for one in conditions if at(one, "type") == "PodScheduled" and at(one, "status") == "False")
        return next((line(at(one, "message")) or "no node takes it" for one in refused), "")

    @property
    def owned(self) -> Owned:
        runs = any(at(one, "state", "running") for one in self.containers)
        if not self.wanted:
            return "running" if runs else "stopped"
        if self.waiting or "Insufficient " in self.unschedulable:
            return "failed"
        ended = any(at(one, "state", "terminated") for one in self.containers)
        return "running" if runs else "failed" if ended else "starting"


def _selector(deployment: Any) -> str:
    """Label selector of the pods as kubectl takes it; one that fits no pod when there is none, never all pods."""
    selector = at(deployment, "spec", "selector")
    parts = [f"{key}={value}" for key, value in pairs(selector, "matchLabels").items()]
    for one in listed(selector, "matchExpressions"):
        form = _FORMS.get(str(at(one, "operator")), _NO_POD)
        parts.append(form.format(key=at(one, "key"), values=",".join(texts(one, "values"))))
    return ",".join(parts) or _NO_POD


def _lost(pod: Any) -> bool:
    """Whether a pod was evicted; it stays listed beside the one that takes its place."""
    return bool(at(pod, "status", "phase") == "Failed")


def _revived_by(deployment: Any) -> str:
    """Who sets the number of replicas besides us, as labels, annotations and owners of the Deployment tell."""
    metadata = at(deployment, "metadata")
    found = [who for where, key, who in REVIVERS if any(re.match(key, one) for one in pairs(metadata, where))]
    owners = [f"{at(one, 'kind')} {at(one, 'name')}" for one in listed(metadata, "ownerReferences")]
    return line(", ".join(dict.fromkeys(found + owners)))


def _detail(seen: _Seen, end: str) -> str:
    messages = (line(at(one, "state", "waiting", "message")) for one in seen.containers)
    lost = (at(pod, "status") for pod in seen.pods if _lost(pod))
    evicted = (line(f"{at(one, 'reason')}: {at(one, 'message')}") for one in lost)
    ending = sum(1 for pod in seen.pods if at(pod, "metadata", "deletionTimestamp"))
    return joined(
        seen.waiting,
        end,
        f"restarted {seen.restarts} times" if seen.restarts else "",
        seen.unschedulable,
        next(evicted, ""),
        f"pods that end: {ending}" if ending else "",
        next(filter(None, messages), "") if seen.waiting else "",
    )


def _traits(seen: _Seen) -> dict[str, str]:
    spec = at(seen.deployment, "spec", "template", "spec")
    limits = at(spec, "containers", 0, "resources", "limits")
    return traits(
        {
            "strategy": at(seen.deployment, "spec", "strategy", "type"),
            "gitops": ", ".join(who for who in GITOPS if who in _revived_by(seen.deployment)),
            "replicas": str(seen.wanted),
            "ready": f"{number(seen.deployment, 'status', 'readyReplicas')}/{seen.wanted}",
            "gpus": at(limits, "nvidia.com/gpu"),
            "memory_limit": at(limits, "memory"),
            "grace_s": at(spec, "terminationGracePeriodSeconds"),
            "waiting": seen.waiting,
            "unschedulable": seen.unschedulable,
        }
    )
