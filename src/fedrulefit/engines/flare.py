"""The engine between hospitals: NVIDIA FLARE carries the envelopes.

FLARE gives what a network of hospitals needs: provisioned identities, mutually
authenticated TLS through one port of the coordinator (hospitals only call out),
reconnection, an audit log. Our part is two components, named in the start-up kits:

* :class:`SiteComponent` in a hospital's FLARE client hands each envelope to a
  :class:`~fedrulefit.engines.host.SiteHost`;
* :class:`CoordinatorComponent` in the coordinator's FLARE server carries out the
  runs of its state folder (:mod:`fedrulefit.engines.runs`).

They talk by FLARE's auxiliary messages between the long-lived parent processes, not
by a FLARE job: a job ends when one of its processes is killed, and is not given to a
site that comes back, while a parent process that is started again is simply there.
Only a kit's own class may be loaded, so that a site runs no job of anybody.

This is the only module that imports nvflare (``pip install "fedrulefit[flare]"``).
"""

from __future__ import annotations

import contextlib
import io
import json
import logging
import os
import shutil
import signal
import sys
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NoReturn

from nvflare.apis.event_type import EventType
from nvflare.apis.executor import Executor
from nvflare.apis.fl_component import FLComponent
from nvflare.apis.fl_constant import ReturnCode
from nvflare.apis.fl_context import FLContext
from nvflare.apis.impl.controller import Controller
from nvflare.apis.shareable import Shareable, make_reply

from fedrulefit.engines.consortium import Consortium, Kit, seal_kit
from fedrulefit.engines.host import SiteHost, lock_folder
from fedrulefit.engines.runs import Caller, carry_out, run_folders, serve
from fedrulefit.engines.startup import open_host
from fedrulefit.errors import FederationError, FedRuleFitError
from fedrulefit.privacy.identity import Identity

log = logging.getLogger(__name__)

TOPIC: Final = "fedrulefit.envelope"
FACTS: Final = "FEDRULEFIT_FACTS"
"""Environment variable that tells a component its local facts, as JSON."""

_BODY: Final = "envelope"
_ADMIN: Final = "admin@fedrulefit.invalid"


# --- The two components -----------------------------------------------------------------------


class SiteComponent(FLComponent):  # type: ignore[misc]
    """A hospital's end: hands envelopes to the host."""

    def __init__(self) -> None:
        super().__init__()
        self._host: SiteHost | None = None

    def handle_event(self, event_type: str, fl_ctx: FLContext) -> None:
        """Open the host when FLARE has started."""
        if event_type != EventType.SYSTEM_START:
            return
        _end_on_interrupt()
        with _or_end():
            self._host = open_host(_local_facts())
        fl_ctx.get_engine().register_aux_message_handler(TOPIC, self._receive)
        log.info("site %s is ready", self._host.name)

    def _receive(self, topic: str, request: Shareable, fl_ctx: FLContext) -> Shareable:
        return _answer(self._host, request)


def _answer(host: SiteHost | None, request: Shareable) -> Shareable:
    envelope = request.get(_BODY)
    if host is None or not isinstance(envelope, bytes):
        return make_reply(ReturnCode.BAD_REQUEST_DATA)
    reply = make_reply(ReturnCode.OK)
    reply[_BODY] = host.receive(envelope)
    return reply


class CoordinatorComponent(FLComponent):  # type: ignore[misc]
    """The coordinator's end: carries out the runs of its state folder."""

    def __init__(self) -> None:
        super().__init__()
        self._stop = threading.Event()

    def handle_event(self, event_type: str, fl_ctx: FLContext) -> None:
        """Begin to serve when FLARE has started; stop with it."""
        if event_type == EventType.SYSTEM_START:
            _end_on_interrupt()
            with _or_end():
                facts = _local_facts()
                kit = Kit.load(facts["kit"], "coordinator")
                state = Path(facts["state"])
                self._lock_file = lock_folder(state)
            sender = _Sender(fl_ctx.get_engine())
            caller = Caller(sender, kit.identity, kit.trust(), kit.coordinator)
            threading.Thread(
                target=serve,
                args=(state, caller, kit.sites, self._stop),
                daemon=True,
                name="fedrulefit runs",
            ).start()
        elif event_type == EventType.SYSTEM_END:
            self._stop.set()


# --- The same in FLARE's simulator, which runs jobs only ---------------------------------------


class SimulatedSite(Executor):  # type: ignore[misc]
    """A hospital in FLARE's simulator."""

    def handle_event(self, event_type: str, fl_ctx: FLContext) -> None:
        """Open the host when the job starts."""
        if event_type == EventType.START_RUN:
            self._host = open_host(_local_facts()["sites"][fl_ctx.get_identity_name()])
            fl_ctx.get_engine().register_aux_message_handler(TOPIC, self._receive)

    def _receive(self, topic: str, request: Shareable, fl_ctx: FLContext) -> Shareable:
        return _answer(self._host, request)

    def execute(self, *arguments: Any) -> Shareable:
        """Take no tasks: envelopes are all there is."""
        return make_reply(ReturnCode.TASK_UNKNOWN)


class SimulatedCoordinator(Controller):  # type: ignore[misc]
    """The coordinator in FLARE's simulator: carries out the runs that wait, and ends."""

    def start_controller(self, fl_ctx: FLContext) -> None:
        """Do nothing: all happens in the control flow."""

    def stop_controller(self, fl_ctx: FLContext) -> None:
        """Do nothing."""

    def process_result_of_unknown_task(self, *arguments: Any) -> None:
        """Take no notice: there are no tasks."""

    def control_flow(self, abort_signal: Any, fl_ctx: FLContext) -> None:
        """Carry out every run of the state folder."""
        facts = _local_facts()["coordinator"]
        kit = Kit.load(facts["kit"], "coordinator")
        sender = _Sender(fl_ctx.get_engine())
        caller = Caller(sender, kit.identity, kit.trust(), kit.coordinator)
        for folder in run_folders(Path(facts["state"])):
            carry_out(folder, caller)


def simulate(
    coordinator: Mapping[str, Any], sites: Mapping[str, Mapping[str, Any]], workspace: Path
) -> None:
    """Carry out all waiting runs of a coordinator's state folder in FLARE's simulator.

    Parameters
    ----------
    coordinator : mapping
        ``kit`` and ``state`` of the coordinator.
    sites : mapping of str to mapping
        The facts of every site, as for :func:`start_site`.
    workspace : Path
        An empty folder for FLARE.
    """
    from nvflare.private.fed.app.simulator.simulator_runner import SimulatorRunner

    config = workspace / "job" / "app" / "config"
    config.mkdir(parents=True)
    site, server = (f"{c.__module__}.{c.__name__}" for c in (SimulatedSite, SimulatedCoordinator))
    files: dict[Path, dict[str, Any]] = {
        workspace / "job" / "meta.json": {
            "name": "fedrulefit",
            "resource_spec": {},
            "min_clients": len(sites),
            "deploy_map": {"app": ["@ALL"]},
        },
        config / "config_fed_server.json": {
            "format_version": 2,
            "workflows": [{"id": "fedrulefit", "path": server, "args": {}}],
        },
        config / "config_fed_client.json": {
            "format_version": 2,
            "executors": [{"tasks": ["*"], "executor": {"path": site, "args": {}}}],
        },
        workspace / "run" / "local" / "resources.json": {
            "format_version": 2,
            "class_allow_list": [site, server],
        },
    }
    for path, facts in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(facts), encoding="utf-8")
    os.environ[FACTS] = json.dumps({"coordinator": dict(coordinator), "sites": dict(sites)})
    runner = SimulatorRunner(
        job_folder=str(workspace / "job"),
        workspace=str(workspace / "run"),
        clients=",".join(sites),
        n_clients=len(sites),
        threads=len(sites),
        log_config="concise",
    )
    if runner.run() != 0:
        raise FederationError(f"FLARE's simulator failed: see {workspace}")


class _Sender:
    """Sends envelopes through FLARE."""

    def __init__(self, engine: Any) -> None:
        self._engine = engine

    def __call__(self, site: str, envelope: bytes, seconds: float) -> bytes | None:
        if all(client.name != site for client in self._engine.get_clients()):
            return None
        request = Shareable()
        request[_BODY] = envelope
        with self._engine.new_context() as fl_ctx:
            replies = self._engine.send_aux_request(
                targets=[site],
                topic=TOPIC,
                request=request,
                timeout=seconds,
                fl_ctx=fl_ctx,
                optional=True,
            )
        reply = (replies or {}).get(site)
        if reply is None or reply.get_return_code() != ReturnCode.OK:
            return None
        body = reply.get(_BODY)
        return body if isinstance(body, bytes) else None


@contextlib.contextmanager
def _or_end() -> Iterator[None]:
    """End the process on an error: FLARE would go on without us, and look healthy."""
    try:
        yield
    except FedRuleFitError as error:
        log.error("cannot start: %s", error)
        os._exit(2)
    except Exception as error:  # its words could hold a patient's value
        log.error("cannot start: %s", type(error).__name__)
        os._exit(2)


def _end_on_interrupt() -> None:
    """Let Ctrl-C end the process at once, as SIGTERM does: all that matters is on disk."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    else:
        log.warning("Ctrl-C may be slow: use SIGTERM")


def _local_facts() -> dict[str, Any]:
    text = os.environ.get(FACTS)
    if text is None:
        raise FederationError(
            "start this process with 'fedrulefit site start' or 'coordinator start'"
        )
    facts: dict[str, Any] = json.loads(text)
    return facts


# --- Starting the processes -------------------------------------------------------------------


def start_site(kit: Kit, facts: Mapping[str, Any]) -> NoReturn:
    """Become the hospital's FLARE client; does not return."""
    _become(
        kit,
        facts,
        "nvflare.private.fed.app.client.client_train",
        "fed_client.json",
        f"uid={kit.name}",
        "heart_beat_interval=2",
    )


def start_coordinator(kit: Kit, facts: Mapping[str, Any]) -> NoReturn:
    """Become the coordinator's FLARE server; does not return."""
    _become(kit, facts, "nvflare.private.fed.app.server.server_train", "fed_server.json")


def _become(
    kit: Kit, facts: Mapping[str, Any], module: str, config: str, *settings: str
) -> NoReturn:
    """Replace this process by FLARE's, on a working copy of the kit.

    FLARE writes into its folder; the kit itself stays as it was sealed.
    """
    work = Path(facts["state"]) / "flare"
    for part in ("startup", "local"):
        shutil.rmtree(work / part, ignore_errors=True)
        shutil.copytree(kit.folder / part, work / part)
    if kit.role == "coordinator":
        _place_storage(work)
    environment = {**os.environ, FACTS: json.dumps(dict(facts))}
    common = ["secure_train=true", "org=fedrulefit", "config_folder=config", *settings]
    command = [sys.executable, "-u", "-m", module, "-m", str(work), "-s", config, "--set", *common]
    os.execve(sys.executable, command, environment)  # noqa: S606 - our own interpreter


def _place_storage(work: Path) -> None:
    """Keep FLARE's own job store, which we do not use, out of the machine's /tmp."""
    path = work / "local" / "resources.json"
    resources = json.loads(path.read_text(encoding="utf-8"))
    storage = resources["snapshot_persistor"]["args"]["storage"]["args"]
    storage["root_dir"] = str(work / "unused" / "snapshots")
    for part in resources["components"]:
        if part["id"] == "job_manager":
            part["args"]["uri_root"] = str(work / "unused" / "jobs")
    path.write_text(json.dumps(resources, indent=1), encoding="utf-8")


# --- Provisioning -----------------------------------------------------------------------------


def provision(consortium: Consortium, folder: Path) -> dict[str, Path]:
    """Make a start-up kit for the coordinator and each hospital.

    The consortium's root is kept in ``authority/`` and used again the next time;
    hospitals' private keys are in their kits only.

    Parameters
    ----------
    consortium : Consortium
    folder : Path
        Where kits and authority go; older kits are replaced.

    Returns
    -------
    kits : dict of str to Path
        The coordinator's kit under ``coordinator``, each hospital's under its name.
    """
    work = folder / ".provision"
    shutil.rmtree(work, ignore_errors=True)
    authority = folder / "authority" / "root.json"
    project = _project(consortium)
    state = work / project["name"] / "state" / "cert.json"
    if authority.exists():
        state.parent.mkdir(parents=True)
        shutil.copy(authority, state)
    try:
        made = _provision(project, work)
        root = _keep_authority(state, authority)
        kits = {"coordinator": made / consortium.coordinator.host}
        kits |= {site: made / site for site in consortium.site_names}
        placed = {name: folder / name for name in kits}
        for name, kit in kits.items():
            shutil.rmtree(placed[name], ignore_errors=True)
            shutil.move(kit, placed[name])
            _finish_kit(consortium, name, placed[name], root)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return placed


def _project(consortium: Consortium) -> dict[str, Any]:
    """Return FLARE's project: who takes part, and what is built for them."""
    host, port = consortium.coordinator.host, consortium.coordinator.port
    builders = "nvflare.lighter.impl"
    return {
        "api_version": 3,
        "name": consortium.name,
        "description": "fedrulefit consortium",
        "participants": [
            {"name": host, "type": "server", "org": "fedrulefit", "fed_learn_port": port},
            *(
                {"name": site, "type": "client", "org": "fedrulefit"}
                for site in consortium.site_names
            ),
            {"name": _ADMIN, "type": "admin", "org": "fedrulefit", "role": "project_admin"},
        ],
        "builders": [
            {
                "path": f"{builders}.workspace.WorkspaceBuilder",
                "args": {"template_file": ["master_template.yml"]},
            },
            {
                "path": f"{builders}.static_file.StaticFileBuilder",
                "args": {"config_folder": "config"},
            },
            {"path": f"{builders}.cert.CertBuilder", "args": {"root_valid_days": 3650}},
            {"path": f"{builders}.signature.SignatureBuilder"},
        ],
    }


def _provision(project: dict[str, Any], work: Path) -> Path:
    from nvflare.lighter.prov_utils import prepare_builders, prepare_packager
    from nvflare.lighter.provision import prepare_project
    from nvflare.lighter.provisioner import Provisioner

    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        provisioner = Provisioner(str(work), prepare_builders(project), prepare_packager(project))
        context = provisioner.provision(prepare_project(project))
    if context.get("build_error"):
        raise FederationError(f"provisioning failed:\n{said.getvalue()}")
    return Path(context.get_result_location())


def _keep_authority(state: Path, authority: Path) -> Identity:
    """Keep the root, and forget the hospitals' private keys."""
    from cryptography.hazmat.primitives.serialization import (
        Encoding,
        NoEncryption,
        PrivateFormat,
        load_pem_private_key,
    )
    from cryptography.x509 import load_pem_x509_certificate

    facts = json.loads(state.read_text(encoding="utf-8"))
    root = {key: facts[key] for key in ("root_cert", "root_pri_key")}
    authority.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    authority.touch(mode=0o600)
    authority.write_text(json.dumps(root), encoding="utf-8")
    key = load_pem_private_key(root["root_pri_key"].encode(), password=None)
    return Identity(
        load_pem_x509_certificate(root["root_cert"].encode()).public_bytes(Encoding.DER),
        key.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption()),
    )


def _finish_kit(consortium: Consortium, name: str, kit: Path, root: Identity) -> None:
    """Name our component, close what we do not use, and seal the kit."""
    role = "coordinator" if name == "coordinator" else "site"
    local = kit / "local"
    resources = json.loads((local / "resources.json.default").read_text(encoding="utf-8"))
    component = SiteComponent if role == "site" else CoordinatorComponent
    path = f"{component.__module__}.{component.__name__}"
    dropped = ("site_log_streamer", "log_receiver")
    kept = [part for part in resources["components"] if part["id"] not in dropped]
    resources["components"] = [*kept, {"id": "fedrulefit", "path": path, "args": {}}]
    resources["class_allow_list"] = [path]
    resources["allow_log_streaming"] = False
    (local / "resources.json").write_text(json.dumps(resources, indent=1), encoding="utf-8")
    (local / "log_config.json").write_text(json.dumps(_LOGGING, indent=1), encoding="utf-8")
    for script in ("start.sh", "sub_start.sh", "stop_fl.sh"):
        (kit / "startup" / script).unlink(missing_ok=True)
    (kit / "readme.txt").write_text(_README[role], encoding="utf-8")
    facts = {
        "consortium": consortium.name,
        "coordinator": consortium.coordinator.host,
        "name": consortium.coordinator.host if role == "coordinator" else name,
        "role": role,
        "sites": list(consortium.site_names),
    }
    seal_kit(kit, facts, root)


_LOGGING: Final = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {
        "plain": {
            "()": "nvflare.fuel.utils.log_utils.BaseFormatter",
            "fmt": "%(asctime)s %(levelname)s %(name)s: %(message)s",
        }
    },
    "handlers": {
        "console": {"class": "logging.StreamHandler", "level": "INFO", "formatter": "plain"},
        "file": {
            "class": "logging.handlers.RotatingFileHandler",
            "level": "INFO",
            "formatter": "plain",
            "filename": "log.txt",
            "maxBytes": 5_000_000,
            "backupCount": 3,
        },
    },
    "loggers": {
        "root": {"level": "WARNING", "handlers": ["console", "file"]},
        "fedrulefit": {"level": "INFO"},
    },
}

_README: Final = {
    "site": (
        "The start-up kit of one hospital. Keep it private: it holds the hospital's key.\n"
        "Start with: fedrulefit site start --kit THIS_FOLDER --study study.toml "
        "--data patients.csv --policy policy.toml\n"
    ),
    "coordinator": (
        "The start-up kit of the coordinator. Keep it private: it holds the coordinator's key.\n"
        "Start with: fedrulefit coordinator start --kit THIS_FOLDER\n"
    ),
}
