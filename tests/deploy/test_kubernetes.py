"""The objects of Kubernetes: they keep its schemas, refer to each other, and their pods are restricted."""

from __future__ import annotations

import copy
from pathlib import Path

import kubernetes_validate
import pytest
import yaml
from kubernetes_validate.utils import all_versions

from salience import settings
from salience.settings import Settings

FOLDER = Path(__file__).parents[2] / "deploy" / "kubernetes"
VERSIONS = sorted(
    {version.rsplit(".", 1)[0] for version in all_versions()}, key=lambda of: tuple(map(int, of.split(".")))
)
LATEST = (VERSIONS[-5], VERSIONS[-1])
"""The oldest and the newest of those that somebody may run: Kubernetes itself looks after three."""


def read(name):
    return list(yaml.safe_load_all((FOLDER / name).read_text()))


KUSTOMIZATION = read("kustomization.yaml")[0]
OBJECTS = {(one["kind"], one["metadata"]["name"]): one for name in KUSTOMIZATION["resources"] for one in read(name)}
SECRETS = {one["metadata"]["name"]: one for one in read("secret.example.yaml")}
PODS = {kind: one["spec"]["template"] for (kind, _), one in OBJECTS.items() if "template" in one.get("spec", {})}


def test_every_file_is_a_resource_but_the_example():
    assert {file.name for file in FOLDER.iterdir()} == {
        *KUSTOMIZATION["resources"], "kustomization.yaml", "secret.example.yaml",
    }  # fmt: skip
    assert set(PODS) == {"Job", "Deployment"}


@pytest.mark.parametrize("version", LATEST)
def test_every_object_keeps_the_schema(version):
    for one in (*OBJECTS.values(), *SECRETS.values()):
        kubernetes_validate.validate(one, version, strict=True)


def test_the_schema_refuses_what_is_wrong():
    wrong = copy.deepcopy(OBJECTS["Deployment", "salience"])
    wrong["spec"]["template"]["spec"]["terminationGracePeriod"] = 45
    with pytest.raises(kubernetes_validate.ValidationError, match="terminationGracePeriod"):
        kubernetes_validate.validate(wrong, LATEST[-1], strict=True)


@pytest.mark.parametrize("kind", PODS)
def test_a_pod_keeps_the_restricted_standard(kind):
    spec = PODS[kind]["spec"]
    assert spec["securityContext"]["runAsNonRoot"]
    assert spec["securityContext"]["runAsUser"] == 10001
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert not spec["automountServiceAccountToken"]
    assert not spec["enableServiceLinks"]
    assert not {"hostNetwork", "hostPID", "hostIPC"} & set(spec)
    assert all("emptyDir" in volume for volume in spec["volumes"])
    for container in spec["containers"]:
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert container["resources"]["requests"].keys() == {"cpu", "memory"}
        assert "memory" in container["resources"]["limits"]
        assert "/tmp" in [mount["mountPath"] for mount in container["volumeMounts"]]  # noqa: S108
    enforced = OBJECTS["Namespace", "salience"]["metadata"]["labels"]["pod-security.kubernetes.io/enforce"]
    assert enforced == "restricted"


@pytest.mark.parametrize("kind", PODS)
def test_what_a_pod_refers_to_is_there(kind):
    (container,) = PODS[kind]["spec"]["containers"]
    assert container["image"] in [image["name"] for image in KUSTOMIZATION["images"]]
    for source in container["envFrom"]:
        if "configMapRef" in source:
            assert ("ConfigMap", source["configMapRef"]["name"]) in OBJECTS
        else:
            assert source["secretRef"]["name"] in SECRETS
    mounted = {mount["name"] for mount in container["volumeMounts"]}
    assert mounted == {volume["name"] for volume in PODS[kind]["spec"]["volumes"]}


def test_the_password_of_the_owner_is_in_no_pod_that_serves():
    named = {
        kind: [
            source["secretRef"]["name"]
            for source in PODS[kind]["spec"]["containers"][0]["envFrom"]
            if "secretRef" in source
        ]
        for kind in PODS
    }
    assert named == {"Job": ["salience-owner"], "Deployment": ["salience"]}
    urls = {name: of["stringData"]["SALIENCE_URL"].split(":PASSWORD@")[0] for name, of in SECRETS.items()}
    assert urls == {"salience-owner": "postgresql://salience_owner", "salience": "postgresql://agents"}


@pytest.mark.parametrize(("kind", "path"), [
    ("Service", ("selector",)), ("PodDisruptionBudget", ("selector", "matchLabels")),
    ("Deployment", ("selector", "matchLabels")),
])  # fmt: skip
def test_selectors_mean_the_pods_that_serve_and_not_the_job(kind, path):
    selector = OBJECTS[kind, "salience"]["spec"]
    for step in path:
        selector = selector[step]
    labels = {of: PODS[of]["metadata"]["labels"] for of in PODS}
    assert selector.items() <= labels["Deployment"].items()
    assert not selector.items() <= labels["Job"].items()


def test_everything_that_serves_is_left_out_until_the_tables_are_there():
    server = {
        kind
        for (kind, _), one in OBJECTS.items()
        if one["metadata"].get("labels", {}).get("app.kubernetes.io/component") == "server"
    }
    assert server == {"Deployment", "Service", "PodDisruptionBudget"}


def test_probes_and_the_service_ask_where_the_server_listens():
    (container,) = PODS["Deployment"]["spec"]["containers"]
    probes = {name: container[name]["httpGet"] for name in ("startupProbe", "livenessProbe", "readinessProbe")}
    assert [probe["path"] for probe in probes.values()] == ["/healthz", "/healthz", "/readyz"]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert ports == {"http": Settings().server_port}
    assert {probe["port"] for probe in probes.values()} == set(ports)
    assert OBJECTS["Service", "salience"]["spec"]["ports"][0]["targetPort"] in ports


def test_a_pod_has_time_to_end_what_it_does():
    spec = PODS["Deployment"]["spec"]
    waits = spec["containers"][0]["lifecycle"]["preStop"]["sleep"]["seconds"]
    shutdown = int(OBJECTS["ConfigMap", "salience"]["data"]["SALIENCE_SERVER_SHUTDOWN"])
    assert shutdown == Settings().server_shutdown
    assert spec["terminationGracePeriodSeconds"] > shutdown + waits


def test_the_settings_can_be_read(monkeypatch):
    data = {**OBJECTS["ConfigMap", "salience"]["data"], **SECRETS["salience"]["stringData"]}
    for name, value in data.items():
        monkeypatch.setenv(name, value)
    chosen = settings.load()
    assert chosen.server_hosts == ("memory.example.org", "salience.salience.svc")
    memory = int(PODS["Deployment"]["spec"]["containers"][0]["resources"]["limits"]["memory"].removesuffix("Mi"))
    assert chosen.cached_rows * 3_000 < memory * 2**20 / 2


def test_the_budget_leaves_pods_to_be_moved():
    assert (
        OBJECTS["PodDisruptionBudget", "salience"]["spec"]["minAvailable"]
        < OBJECTS["Deployment", "salience"]["spec"]["replicas"]
    )


def test_the_network_lets_in_the_port_and_out_to_names_and_postgresql():
    spec = OBJECTS["NetworkPolicy", "salience"]["spec"]
    assert spec["policyTypes"] == ["Ingress", "Egress"]
    assert [port["port"] for rule in spec["ingress"] for port in rule["ports"]] == ["http"]
    assert {port["port"] for rule in spec["egress"] for port in rule["ports"]} == {53, 5432}
