"""The charter: canonical, compared with kits and policies, accepted by a person."""

from __future__ import annotations

import json
import stat
from dataclasses import fields
from pathlib import Path

import pytest

from fedrulefit.errors import FederationError, PolicyError
from fedrulefit.federation.kits.charter import (
    Charter,
    accept,
    check_acceptance,
    join_pins,
    read_acceptance,
)
from fedrulefit.federation.kits.kit import Kit
from fedrulefit.privacy.identity import Identity, Trust, make_consortium
from fedrulefit.privacy.policy import Policy
from tests.loopback import COORDINATOR, charter_of

IDENTITIES, TRUST = make_consortium([COORDINATOR, "north", "south", "west"])
CHARTER = charter_of(IDENTITIES, TRUST)


class PlainKit(Kit):
    """A kit without files."""

    @property
    def identity(self) -> Identity:
        return IDENTITIES[self.name]

    @property
    def root_fingerprint(self) -> str:
        return CHARTER.root

    def trust(self, pinned: object = None) -> Trust:
        return TRUST


def kit_of(name: str, **changes: object) -> Kit:
    facts = {
        "folder": Path("kits") / name,
        "name": name,
        "role": "site",
        "consortium": "loopback",
        "coordinator": COORDINATOR,
        "sites": ("north", "south", "west"),
    }
    blank = {field.name: "" for field in fields(Kit)}
    return PlainKit(**{**blank, **facts, **changes})  # type: ignore[arg-type]


def test_a_charter_survives_its_file(tmp_path: Path) -> None:
    (tmp_path / "charter.toml").write_text(CHARTER.text(), encoding="utf-8")
    assert Charter.load(tmp_path / "charter.toml") == CHARTER


def test_the_hash_is_of_what_it_says_not_how(tmp_path: Path) -> None:
    """Another order, spelling of fingerprints, comments and dates are the same charter."""
    facts = CHARTER.model_dump(mode="json")
    facts["sites"].reverse()
    facts["sites"][0]["fingerprint"] = ":".join(
        facts["sites"][0]["fingerprint"].upper()[k : k + 2] for k in range(0, 64, 2)
    )
    facts["coordinator"]["expires"] = "2099-01-01"
    assert Charter.model_validate(facts).digest == CHARTER.digest
    for change in (
        {"consortium": "other"},
        {"root": "0" * 64},
        {"coordinator": {**facts["coordinator"], "fingerprint": "1" * 64}},
        {"coordinator": {**facts["coordinator"], "name": "elsewhere"}},
        {"sites": facts["sites"][1:]},
        {"sites": [{**facts["sites"][0], "name": "x"}, *facts["sites"][1:]]},
        {"sites": [{**facts["sites"][0], "fingerprint": "2" * 64}, *facts["sites"][1:]]},
    ):
        assert Charter.model_validate({**facts, **change}).digest != CHARTER.digest, change


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('name = "south"', 'name = "north"', "the same name"),
        (IDENTITIES["south"].fingerprint, IDENTITIES["north"].fingerprint, "same fingerprint"),
        (IDENTITIES["south"].fingerprint, "abc", "64 hexadecimal"),
        ('name = "south"', f'name = "{COORDINATOR}"', "name of the coordinator"),
        ('name = "south"', 'name = "a\\u001b[2J"', "name or address of a machine"),
        ("consortium", "consorcium", "consorcium"),
        ("[coordinator]", "[coordinator", "is not valid TOML"),
    ],
    ids=range(7),  # fingerprints differ from process to process
)
def test_a_faulty_charter_is_refused(tmp_path: Path, old: str, new: str, words: str) -> None:
    path = tmp_path / "charter.toml"
    path.write_text(CHARTER.text().replace(old, new, 1), encoding="utf-8")
    with pytest.raises(FederationError, match=words):
        Charter.load(path)
    with pytest.raises(FederationError, match="does not exist"):
        Charter.load(tmp_path / "none.toml")


def test_words_show_every_name_and_fingerprint_in_groups() -> None:
    text = "\n".join(CHARTER.words())
    for name, identity in IDENTITIES.items():
        assert name in text
        digits = "".join(text.split())
        assert identity.fingerprint in digits
    assert CHARTER.root[:4] + " " + CHARTER.root[4:8] in text
    assert CHARTER.hash[:4] + " " + CHARTER.hash[4:8] in text


def test_changes_say_who_joined_left_and_changed() -> None:
    later, _ = make_consortium([COORDINATOR, "north", "south", "east"])
    new = charter_of({**later, "north": IDENTITIES["north"]}, TRUST)
    said = new.changes(CHARTER)
    assert said == [
        f"The coordinator {COORDINATOR} has a NEW certificate.",
        "east JOINED.",
        "west LEFT.",
        "south has a NEW certificate.",
    ]
    assert CHARTER.changes(CHARTER) == []
    other = CHARTER.model_copy(update={"root": "0" * 64, "consortium": "x"})
    assert len(other.changes(CHARTER)) == 2


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"consortium": "other"}, "consortium 'other'"),
        ({"coordinator": "other"}, "coordinator is 'other'"),
        ({"sites": ("north", "south")}, "other sites"),
        ({"sites": ("north", "south", "west", "invented")}, "other sites"),
    ],
)
def test_a_kit_of_another_charter_is_refused(changes: dict[str, object], words: str) -> None:
    CHARTER.check_kit(kit_of("north"))
    with pytest.raises(FederationError, match=words):
        CHARTER.check_kit(kit_of("north", **changes))


def test_a_kit_with_another_certificate_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    again, _ = make_consortium(["north"])
    monkeypatch.setitem(IDENTITIES, "north", again["north"])
    with pytest.raises(FederationError, match="another certificate for 'north'"):
        CHARTER.check_kit(kit_of("north"))
    monkeypatch.setattr(PlainKit, "root_fingerprint", "0" * 64)
    with pytest.raises(FederationError, match="root certificate is not the charter's"):
        CHARTER.check_kit(kit_of("south"))


def test_an_acceptance_is_kept_with_who_and_when(tmp_path: Path) -> None:
    assert read_acceptance(tmp_path) is None
    accept(tmp_path, CHARTER, site="north", dataset="icu", by="the officer")
    kept = read_acceptance(tmp_path)
    assert kept is not None
    assert (kept.charter, kept.site, kept.dataset, kept.by) == (
        CHARTER, "north", "icu", "the officer",
    )  # fmt: skip
    assert kept.time
    path = tmp_path / "charter.json"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    smaller = CHARTER.model_copy(update={"sites": CHARTER.sites[:2]})
    accept(tmp_path, smaller, site="north", dataset="icu", by="another")
    assert read_acceptance(tmp_path).charter == smaller  # type: ignore[union-attr]
    assert [entry["by"] for entry in json.loads(path.read_text())] == ["the officer", "another"]
    path.write_text("[{}]")
    with pytest.raises(FederationError, match="accept the charter again"):
        read_acceptance(tmp_path)


def test_a_site_starts_under_what_was_accepted_for_it_alone(tmp_path: Path) -> None:
    kit, policy = kit_of("north"), Policy(dataset="icu")
    with pytest.raises(FederationError, match=r"no charter was accepted(.|\n)*invented"):
        check_acceptance(kit, policy, tmp_path)
    assert check_acceptance(kit, policy, tmp_path, without=True) is None
    accept(tmp_path, CHARTER, site="north", dataset="icu", by="x")
    assert check_acceptance(kit, policy, tmp_path) == CHARTER
    with pytest.raises(FederationError, match="are kits swapped"):
        check_acceptance(kit_of("south"), policy, tmp_path)
    with pytest.raises(FederationError, match="data set 'icu'"):
        check_acceptance(kit, Policy(), tmp_path)


def test_pins_of_policy_and_charter_must_agree() -> None:
    south = IDENTITIES["south"].fingerprint
    assert join_pins(Policy(), CHARTER) == CHARTER.pins
    assert set(CHARTER.pins) == {COORDINATOR, "north", "south", "west"}
    assert join_pins(Policy(peers={"south": south}), CHARTER) == CHARTER.pins
    assert join_pins(Policy(peers={"south": south}), None) == {"south": south}
    with pytest.raises(PolicyError, match="names another certificate"):
        join_pins(Policy(peers={"south": "0" * 64}), CHARTER)
    with pytest.raises(PolicyError, match="does not know"):
        join_pins(Policy(peers={"east": "0" * 64}), CHARTER)
