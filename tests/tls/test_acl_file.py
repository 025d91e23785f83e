"""Access rules from a file: rulings, and refusals with a remedy."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from tolliver._options.acl_file import load_acl
from tolliver._options.instance import InstanceOptions

from tolliver_proto import Acl, Rights

ID = UUID("01890000-0000-7000-8000-000000000001")
OTHER = UUID("01890000-0000-7000-8000-000000000002")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "rules.toml"


def test_a_whole_file(file: Path) -> None:
    file.write_text(
        f"""
        default = "deny"
        [peers."{ID}"]
        subscribe = [["readings", "*"], ["a/b [\\"x\\"]", "kitchen"]]
        publish = [["*", "*"]]
        connect = true
        [peers.{OTHER}]
        [derived.f00dbabe0001]
        publish = [["readings", "*"]]
        connect = true
        """
    )
    rights = Rights((("readings", "*"), ('a/b ["x"]', "kitchen")))
    assert load_acl(file) == Acl(
        Rights.none(),
        {ID: rights, OTHER: Rights((), ())},
        {"f00dbabe0001": Rights((), (("readings", "*"),))},
    )


def test_what_is_not_said_is_as_the_default_has_it(file: Path) -> None:
    file.write_text(f'default = "allow"\n[peers.{ID}]\npublish = []\n[peers.{OTHER}]\nconnect = false\n')
    assert load_acl(str(file)) == Acl(Rights(), {ID: Rights(publish=()), OTHER: Rights(connect=False)})
    file.write_text('default = "allow"')
    assert load_acl(file).is_open


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", 'default is missing: write default = "deny" or default = "allow"'),
        ('default = "Deny"', "default is 'Deny': write "),
        ("default = []", "default is []: write "),
        ('default = "deny"\nallow = 1', "the file has the unknown entry 'allow': there are default, peers, derived"),
        ('default = "deny"\npeers = 1', 'peers is 1: write a table, [peers."UUID"]'),
        ('default = "deny"\n[peers.alice]', "peers.'alice' is no UUID: write [peers.\"0189"),
        (f'default = "deny"\npeers.{ID} = 1', f"peers.'{ID}' is 1: write a table"),
        (f'default = "deny"\n[peers.{ID}]\nsend = []', f"peers.'{ID}' has the unknown entry 'send': there are subs"),
        (f'default = "deny"\n[peers.{ID}]\n[peers.{ID.hex}]', "is there twice, written differently"),
        (f'default = "deny"\n[peers.{ID}]\nsubscribe = ["readings/*"]', f"peers.'{ID}': Rights.subscribe is ['read"),
        (f'default = "deny"\n[peers.{ID}]\npublish = "*"', 'give (channel, key) pairs, such as [["readings", "*"]'),
        (f'default = "deny"\n[peers.{ID}]\nconnect = 1', "Rights.connect is 1: give True or False"),
        ('default = "deny"\nderived = 1', "derived is 1: write a table"),
        ('default = "deny"\n[derived.x]', "Acl.derived has 'x': "),
        ("default = deny", "Invalid value (at line 1"),
    ],
)
def test_mistakes(file: Path, text: str, complaint: str) -> None:
    file.write_text(text)
    with pytest.raises(ValueError, match="access rules in ") as caught:
        load_acl(file)
    assert str(caught.value).startswith(f"access rules in {file}: ")
    assert complaint in str(caught.value)


def test_no_text_and_no_file(file: Path) -> None:
    file.write_bytes(b'default = "deny"\xff')
    with pytest.raises(ValueError, match=r"rules\.toml: 'utf-8' codec can't decode"):
        load_acl(file)
    with pytest.raises(FileNotFoundError):
        load_acl(file.with_name("another"))


def test_as_an_option() -> None:
    assert InstanceOptions(plaintext=True).acl.is_open
    rules = Acl(Rights.none())
    assert InstanceOptions(plaintext=True, acl=rules).acl is rules
    wrong: Any = "rules.toml"
    with pytest.raises(TypeError, match=r"InstanceOptions\.acl is 'rules\.toml': give an Acl"):
        InstanceOptions(plaintext=True, acl=wrong)
