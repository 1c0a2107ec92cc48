"""The files of deploy/: commands as the program takes them, and nobody has too much."""

from __future__ import annotations

import configparser
import shlex
from pathlib import Path
from typing import Any

import pytest
import typer

from fedrulefit.cli.app import app

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
yaml = pytest.importorskip("yaml")


def parse(command: list[str]) -> dict[str, Any]:
    """Parse a command without running it."""
    group = typer.main.get_command(app)
    found = group.get_command(None, command[0]).get_command(None, command[1])  # type: ignore[attr-defined]
    return dict(found.make_context(command[1], command[2:]).params)


def unit(name: str) -> dict[str, str]:
    parser = configparser.ConfigParser(strict=False, interpolation=None)
    parser.optionxform = str  # type: ignore[assignment, method-assign]
    text = (DEPLOY / "systemd" / name).read_text(encoding="utf-8").replace("\\\n", "")
    parser.read_string(text)
    return dict(parser["Service"])


@pytest.mark.parametrize("role", ["site", "coordinator", "carrier"])
def test_a_unit_is_hardened_and_its_command_is_right(role: str) -> None:
    facts = unit(f"fedrulefit-{role}.service")
    program, *command = shlex.split(facts["ExecStart"])
    assert Path(program).name == "fedrulefit"
    assert command[:2] == [role, "start"]
    assert str(parse(command)["socket"]) == "/run/fedrulefit/link"
    assert facts["NoNewPrivileges"] == "yes"
    assert facts["ProtectSystem"] == "strict"
    assert facts["CapabilityBoundingSet"] == ""
    has_network = role == "carrier"
    assert (facts.get("PrivateNetwork") == "yes") is not has_network
    assert ("AF_INET" in facts["RestrictAddressFamilies"]) is has_network
    assert ("ReadWritePaths" in facts) is not has_network


def test_the_units_are_two_users_with_one_group() -> None:
    users = {role: unit(f"fedrulefit-{role}.service")["User"] for role in ("site", "carrier")}
    assert users["site"] != users["carrier"]


def test_the_containers_share_a_socket_and_nothing_else() -> None:
    services = yaml.safe_load((DEPLOY / "compose.yaml").read_text(encoding="utf-8"))["services"]
    site, carrier = services["site"], services["carrier"]
    assert site["network_mode"] == "none"
    assert "network_mode" not in carrier
    assert site["user"] != carrier["user"]
    volumes = [{text.split(":")[0] for text in one["volumes"]} for one in (site, carrier)]
    assert volumes[0] & volumes[1] == {"link"}
    for one in (site, carrier):
        assert one["read_only"] is True
        assert one["cap_drop"] == ["ALL"]
        assert str(parse(shlex.split(one["command"]))["socket"]) == "/run/fedrulefit/link"
