"""State folders: one owner's, and closed to others."""

from __future__ import annotations

import os
import stat
from dataclasses import replace
from pathlib import Path

import pytest

from fedrulefit import files
from fedrulefit.errors import FederationError, LedgerError
from fedrulefit.federation.state import (
    JOURNAL,
    Owner,
    check_owner,
    open_state,
    read_owner,
    write_owner,
)

NORTH = Owner("site", "north", "a" * 64, "b" * 64)
LEAD = Owner("coordinator", "fed.example.org", "a" * 64, "b" * 64)


@pytest.fixture
def state(tmp_path: Path) -> Path:
    (tmp_path / JOURNAL).touch()
    write_owner(tmp_path, NORTH)
    return tmp_path


def test_a_new_folder_is_anybody_s_and_then_its_owner_s(tmp_path: Path, state: Path) -> None:
    check_owner(tmp_path / "new", NORTH, chartered=False)
    check_owner(state, NORTH, chartered=False)
    assert read_owner(state) == NORTH


@pytest.mark.parametrize("chartered", [False, True])
@pytest.mark.parametrize("other", [replace(NORTH, name="south"), LEAD])
def test_another_name_is_never_let_in(state: Path, other: Owner, chartered: bool) -> None:
    with pytest.raises(FederationError, match="swapped"):
        check_owner(state, other, chartered=chartered)


def test_a_new_root_or_certificate_needs_a_charter(state: Path) -> None:
    renewed, moved = replace(NORTH, certificate="c" * 64), replace(NORTH, root="d" * 64)
    with pytest.raises(FederationError, match="accept the new charter"):
        check_owner(state, renewed, chartered=False)
    with pytest.raises(FederationError, match="another root"):
        check_owner(state, moved, chartered=False)
    check_owner(state, renewed, chartered=True)
    check_owner(state, moved, chartered=True)


def test_a_coordinator_may_renew_its_certificate_but_not_its_root(tmp_path: Path) -> None:
    write_owner(tmp_path, LEAD)
    check_owner(tmp_path, replace(LEAD, certificate="c" * 64), chartered=False)
    with pytest.raises(FederationError, match="another root"):
        check_owner(tmp_path, replace(LEAD, root="d" * 64), chartered=False)


def test_a_lost_journal_is_not_begun_anew(state: Path) -> None:
    (state / JOURNAL).unlink()
    with pytest.raises(LedgerError, match="Bring it back"):
        check_owner(state, NORTH, chartered=True)


def test_an_owner_that_cannot_be_read_is_refused(state: Path) -> None:
    (state / "owner.json").write_text("{}")
    with pytest.raises(FederationError, match="cannot be read"):
        check_owner(state, NORTH, chartered=True)


@pytest.fixture(autouse=True, params=[0, 0o022])
def _umask(request: pytest.FixtureRequest) -> object:
    before = os.umask(request.param)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_what_is_written_privately_is_private_whatever_the_umask(tmp_path: Path) -> None:
    files.make_private_folder(tmp_path / "a" / "b")
    files.touch_private(tmp_path / "a" / "b" / "lock")
    files.write_whole(tmp_path / "a" / "b" / "facts", b"x", private=True)
    assert mode(tmp_path / "a" / "b") == 0o700
    assert mode(tmp_path / "a" / "b" / "lock") == 0o600
    assert mode(tmp_path / "a" / "b" / "facts") == 0o600
    (tmp_path / "a" / "b" / "facts").chmod(0o644)
    files.write_whole(tmp_path / "a" / "b" / "facts", b"y", private=True)
    assert mode(tmp_path / "a" / "b" / "facts") == 0o600
    assert sorted(p.name for p in (tmp_path / "a" / "b").iterdir()) == ["facts", "lock"]


def test_an_open_folder_is_closed_and_that_is_said(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.write_text("not ours")
    outside.chmod(0o644)
    state = tmp_path / "state"
    (state / "approvals").mkdir(parents=True, mode=0o755)
    (state / "approvals" / "one.json").write_text("{}")
    (state / "runs").symlink_to(outside)
    (state / "patients.csv").write_text("somebody's table")
    (state / "patients.csv").chmod(0o644)
    for path in (state, state / "approvals"):
        path.chmod(0o755)
    (state / "approvals" / "one.json").chmod(0o640)
    (warning,) = open_state(state)
    assert "3 files or folders" in warning
    assert (mode(state), mode(state / "approvals")) == (0o700, 0o700)
    assert mode(state / "approvals" / "one.json") == 0o600
    assert mode(outside) == 0o644, "a link is not followed"
    assert mode(state / "patients.csv") == 0o644, "not ours"
    assert open_state(state) == []


def test_a_folder_that_cannot_be_closed_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tmp_path.chmod(0o755)

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(Path, "chmod", refuse)
    with pytest.raises(FederationError, match="other users can reach"):
        files.close_to_others(tmp_path)
