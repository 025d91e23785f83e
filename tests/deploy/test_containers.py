"""The image and the manifests, as far as they can be looked at without a container or a cluster."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tolliver import blocking
from tolliver._cli.config import load

from tests.cli.commands import SECONDS

DEPLOY = Path(__file__).parent.parent.parent / "deploy"
ROOT = DEPLOY.parent
DOCKERFILE = DEPLOY / "docker" / "Dockerfile"
KUBERNETES = DEPLOY / "kubernetes"
STAGERS = KUBERNETES / "stagers"
KINDS = {"Namespace", "Service", "StatefulSet", "PodDisruptionBudget", "NetworkPolicy"}
of_each = pytest.mark.parametrize("directory", [KUBERNETES, STAGERS], ids=["instances", "stagers"])


def test_hadolint_finds_nothing_in_the_dockerfile() -> None:
    found = shutil.which("hadolint", path=str(Path(sys.executable).parent)) or shutil.which("hadolint")
    if found is None:
        pytest.skip("hadolint is not installed")
    linted = subprocess.run([found, str(DOCKERFILE)], capture_output=True, text=True, timeout=SECONDS, check=False)
    assert (linted.returncode, linted.stdout) == (0, "")


def test_the_image_copies_what_there_is_and_is_not_root() -> None:
    text = DOCKERFILE.read_text()
    copied = [word for line in re.findall(r"^COPY (?!--from)(.*) \S+$", text, re.MULTILINE) for word in line.split()]
    ignored = (DEPLOY / "docker" / "Dockerfile.dockerignore").read_text().splitlines()
    assert copied
    for name in copied:
        assert (ROOT / name).exists()
        assert f"!{name}" in ignored
    assert "USER 10001:10001" in text


def test_the_base_is_a_version_and_process_1_reaps() -> None:
    text = DOCKERFILE.read_text()
    assert re.search(r"^ARG BASE=python:\d+\.\d+\.\d+-slim-\w+$", text, re.MULTILINE)
    assert set(re.findall(r"^FROM (\S+)", text, re.MULTILINE)) == {"${BASE}"}
    (entry,) = re.findall(r"^ENTRYPOINT (\[.*\])$", text, re.MULTILINE)
    assert json.loads(entry) == ["tini", "--", "tolliver"]
    assert {"title", "description", "licenses", "version", "revision", "base.name"} == {
        *re.findall(r"org\.opencontainers\.image\.([\w.]+)=", text)
    }


def test_the_health_check_asks_the_status_endpoint(tmp_path: Path) -> None:
    (words,) = re.findall(r"^HEALTHCHECK .*\\\n\s+CMD (\[.*\])$", DOCKERFILE.read_text(), re.MULTILINE)
    python, *arguments = json.loads(words)
    assert python == "python"
    options = blocking.InstanceOptions(database=tmp_path / "node.db", plaintext=True, status="127.0.0.1:0")
    with blocking.create_instance(options) as instance:
        assert instance.status_address is not None
        asked = [one.replace("9464", str(instance.status_address[1])) for one in arguments]
        assert asked != arguments
        assert subprocess.run([sys.executable, *asked], timeout=SECONDS, check=False).returncode == 0
    ended = subprocess.run([sys.executable, *asked], timeout=SECONDS, capture_output=True, check=False)
    assert ended.returncode != 0


def documents(directory: Path) -> list[Any]:
    yaml = pytest.importorskip("yaml")
    paths = [path for path in directory.glob("*.yaml") if path.name != "kustomization.yaml"]
    return [one for path in sorted(paths) for one in yaml.safe_load_all(path.read_text())]


def of_kind(kind: str, directory: Path = KUBERNETES) -> list[Any]:
    return [one for one in documents(directory) if one["kind"] == kind]


@of_each
def test_the_manifests_fit_the_schemas_of_the_interface(directory: Path) -> None:
    validating = pytest.importorskip("kubernetes_validate")
    others = ("cert-manager.io/v1", "monitoring.coreos.com/v1")
    checked = [one for one in documents(directory) if one["apiVersion"] not in others]
    for document in checked:
        validating.validate(document, validating.latest_version(), strict=True)
    assert {one["kind"] for one in checked} - {"Pod"} == KINDS
    with pytest.raises(validating.ValidationError):
        validating.validate({**checked[0], "replica": 1}, validating.latest_version(), strict=True)


VALIDATE = """
const {Certificate} = require("@kubernetes-models/cert-manager/cert-manager.io/v1/Certificate");
const {Issuer} = require("@kubernetes-models/cert-manager/cert-manager.io/v1/Issuer");
const {PodMonitor} = require("@kubernetes-models/prometheus-operator/monitoring.coreos.com/v1/PodMonitor");
const kinds = {Certificate, Issuer, PodMonitor};
for (const one of JSON.parse(process.argv[1])) new kinds[one.kind](one).validate();
"""


@pytest.mark.thorough
def test_the_certificates_and_the_monitor_fit_the_schemas_of_their_operators(tmp_path: Path) -> None:
    """They pass over keys that they do not know: so these are looked for among those that there are."""
    if shutil.which("npm") is None or shutil.which("node") is None:
        pytest.skip("npm and node are not installed")
    packages = ["@kubernetes-models/cert-manager@4", "@kubernetes-models/prometheus-operator@4"]
    install = ["npm", "install", "--no-audit", "--no-fund", *packages]
    if subprocess.run(install, cwd=tmp_path, capture_output=True, timeout=SECONDS, check=False).returncode:
        pytest.skip(f"npm cannot install {' and '.join(packages)} here")

    def refused(documents: list[Any]) -> str:
        command = ["node", "-e", VALIDATE, json.dumps(documents)]
        return subprocess.run(
            command, cwd=tmp_path, capture_output=True, text=True, timeout=SECONDS, check=False
        ).stderr

    made = [one for directory in (KUBERNETES, STAGERS) for one in of_kind("Certificate", directory)]
    (monitor,) = of_kind("PodMonitor")
    assert len(made) == 7
    assert refused([*made, *of_kind("Issuer"), *of_kind("Issuer", STAGERS), monitor]) == ""
    assert "must be string" in refused([{**monitor, "spec": {**monitor["spec"], "jobLabel": {}}}])
    assert "must be equal to one of" in refused([{**made[0], "spec": {**made[0]["spec"], "usages": ["anything"]}}])
    known = tmp_path / "node_modules/@kubernetes-models/cert-manager/cert-manager.io/v1/Certificate.d.ts"
    keys = {*re.findall(r'^\s+"(\w+)"\??:', known.read_text(), re.MULTILINE)}
    assert {key for one in made for key in (*one["spec"], *one["spec"]["privateKey"])} <= keys


@of_each
def test_what_the_manifests_say_fits_together(directory: Path) -> None:
    """Names that are dialled are in certificates, with the UUIDs that are pinned; paths are those of the volumes."""
    (stateful,) = of_kind("StatefulSet", directory)
    (service,) = of_kind("Service", directory)
    pod = stateful["spec"]["template"]["spec"]
    mounted = {one["name"]: one["mountPath"] for one in pod["containers"][0]["volumeMounts"]}
    stages = [mounted["stage"]] if "stage" in mounted else []
    (sources,) = [one["projected"]["sources"] for one in pod["volumes"] if "projected" in one]
    files = {f"{mounted['certificates']}/{item['path']}" for one in sources for item in one["secret"]["items"]}
    secrets = {one["secret"]["name"] for one in sources}
    members = {
        one["metadata"]["name"]: one["spec"] for one in of_kind("Certificate", directory) if not one["spec"].get("isCA")
    }
    assert secrets == {spec["secretName"] for spec in members.values()}
    assert [*members] == [f"{stateful['metadata']['name']}-{number}" for number in range(stateful["spec"]["replicas"])]
    assert stateful["spec"]["serviceName"] == service["metadata"]["name"]
    for name, spec in members.items():
        config = load(directory / f"{name}.toml")
        for key in ("tls.cert", "tls.key", "tls.ca"):
            assert str(config.values[key]) in files
            assert f"/{name}/" in str(config.values[key])
        assert str(config.values["database"]).startswith(mounted["data"])
        assert [one.stage.parent for one in config.destinations if one.stage] == [Path(one) for one in stages]
        assert f"{name}.{service['metadata']['name']}" in spec["dnsNames"]
        for remote in config.values.get("remotes", ()):
            other = members[remote.host.partition(".")[0]]
            assert remote.host in other["dnsNames"]
            assert other["uris"] == [f"urn:uuid:{remote.identity}"]
        ports = {port["containerPort"] for port in pod["containers"][0]["ports"]}
        assert {int(config.values[key].rpartition(":")[2]) for key in ("listen", "status")} == ports
    assert len({uri for spec in members.values() for uri in spec["uris"]}) == len(members)


@of_each
def test_certificates_are_renewed_and_shown_in_time(directory: Path) -> None:
    """A connection ends, and the next one shows the new certificate, before the old one does."""
    for spec in (one["spec"] for one in of_kind("Certificate", directory) if not one["spec"].get("isCA")):
        values = load(directory / f"{spec['commonName']}.toml").values
        left = int(spec["renewBefore"].removesuffix("h")) * 3600
        assert values["max_connection_age"] + values["reload_every"] < left


def test_the_monitor_and_the_policy_know_the_pods() -> None:
    (stateful,), (monitor,), (policy,) = of_kind("StatefulSet"), of_kind("PodMonitor"), of_kind("NetworkPolicy")
    template = stateful["spec"]["template"]
    labels, ports = template["metadata"]["labels"], template["spec"]["containers"][0]["ports"]
    for selector in (monitor["spec"]["selector"], policy["spec"]["podSelector"]):
        assert selector["matchLabels"].items() <= labels.items()
    assert labels[monitor["spec"]["jobLabel"]] == "tolliver", "the job that the alerts expect"
    (endpoint,) = monitor["spec"]["podMetricsEndpoints"]
    (status,) = (port["containerPort"] for port in ports if port["name"] == endpoint["port"])
    members, monitoring = policy["spec"]["ingress"]
    assert [port["port"] for port in monitoring["ports"]] == [status]
    (member,) = members["from"]
    assert member["podSelector"]["matchLabels"].items() <= labels.items(), "and so they reach each other"


def test_only_senders_and_monitoring_reach_a_stager_and_its_probes_ask_what_it_serves() -> None:
    (stateful,), (policy,) = of_kind("StatefulSet", STAGERS), of_kind("NetworkPolicy", STAGERS)
    (container,) = stateful["spec"]["template"]["spec"]["containers"]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    senders, monitoring = policy["spec"]["ingress"]
    assert [port["port"] for port in senders["ports"]] == [ports["messages"]]
    assert [port["port"] for port in monitoring["ports"]] == [ports["status"]]
    (sender,) = senders["from"]
    assert sender["podSelector"] == sender["namespaceSelector"] == {"matchLabels": {"tolliver/sender": "true"}}
    assert "Egress" in policy["spec"]["policyTypes"]
    assert "egress" not in policy["spec"], "nothing goes out"
    for kind in ("StatefulSet", "PodDisruptionBudget"):
        (one,) = of_kind(kind, STAGERS)
        assert one["spec"]["selector"] == policy["spec"]["podSelector"]
    for probe, path in (("startupProbe", "/healthz"), ("livenessProbe", "/healthz"), ("readinessProbe", "/readyz")):
        assert container[probe]["httpGet"] == {"path": path, "port": "status"}


def test_spark_mounts_the_volumes_of_all_stages_as_the_user_who_may_read_them() -> None:
    (stateful,), (namespace,) = of_kind("StatefulSet", STAGERS), of_kind("Namespace", STAGERS)
    lines = (STAGERS / "spark.conf").read_text().splitlines()
    conf = dict(line.split(" ", 1) for line in lines if not line.startswith("#"))
    assert conf["spark.kubernetes.namespace"] == namespace["metadata"]["name"]
    names = [f"stage-{number}" for number in range(stateful["spec"]["replicas"])]
    for role in ("driver", "executor"):
        volumes = f"spark.kubernetes.{role}.volumes.persistentVolumeClaim."
        assert {key.removeprefix(volumes).partition(".")[0] for key in conf if key.startswith(volumes)} == {*names}
        for number, name in enumerate(names):
            claim = f"stage-{stateful['metadata']['name']}-{number}"  # as Kubernetes names it
            assert conf[f"{volumes}{name}.options.claimName"] == claim
            assert conf[f"{volumes}{name}.mount.path"] == f"/mnt/stages/{stateful['metadata']['name']}-{number}"
            assert (f"{volumes}{name}.mount.readOnly" in conf) == (role == "executor"), "the driver deletes"
        template = ROOT / conf[f"spark.kubernetes.{role}.podTemplateFile"]
        (pod,) = of_kind("Pod", template.parent)
        asked, stager = pod["spec"]["securityContext"], stateful["spec"]["template"]["spec"]["securityContext"]
        assert asked == stager
    (label,) = of_kind("NetworkPolicy", STAGERS)[0]["spec"]["ingress"][0]["from"][0]["podSelector"]["matchLabels"]
    assert conf[f"spark.kubernetes.executor.label.{label}"] == namespace["metadata"]["labels"][label] == "true"


@of_each
def test_kubectl_builds_them(directory: Path) -> None:
    if shutil.which("kubectl") is None:
        pytest.skip("kubectl is not installed")
    built = subprocess.run(
        ["kubectl", "kustomize", str(directory)], capture_output=True, text=True, timeout=SECONDS, check=False
    )
    assert built.returncode == 0, built.stderr
    assert f"{min(directory.glob('*.toml')).name}: |" in built.stdout
