"""Records behave as the frozen, slotted dataclasses that a type checker takes them for."""

from __future__ import annotations

import copy
import dataclasses
import pickle
import subprocess
import sys
from typing import ClassVar

import pytest
from helpers.shell import ROOT

from fencepost.model import Caller, Scope
from fencepost.record import dataclass, field, fields, replace


@dataclass(frozen=True, slots=True)
class Point:
    """A point."""

    UNIT: ClassVar[str] = "m"
    x: int
    y: int = 2

    @property
    def sum(self) -> int:
        return self.x + self.y


@dataclass(frozen=True, slots=True)
class Named(Point):
    name: str = "n"
    seen: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.seen.append(self.x)


@dataclass(slots=True)
class Row:
    x: int
    y: int = 0


@dataclass(slots=True, eq=False)
class Thing:
    x: int


@dataclasses.dataclass(frozen=True, slots=True)
class RealPoint:
    x: int
    y: int = 2


def test_it_is_made_shown_and_compared_as_a_dataclass():
    assert repr(Point(1)) == "Point(x=1, y=2)" == repr(RealPoint(1)).replace("Real", "")
    assert Point(1) == Point(x=1, y=2) != Point(2)
    assert Point(1) != Named(1) and Point(1) != (1, 2)
    assert hash(Point(1)) == hash(RealPoint(1)) and len({Point(1), Point(1)}) == 1
    assert (Point(1).sum, Point.UNIT, Point.__doc__) == (3, "m", "A point.")
    match Point(1, 5):
        case Point(x, y):
            assert (x, y) == (1, 5)


def test_a_frozen_one_cannot_be_changed():
    point = Point(1)
    with pytest.raises(dataclasses.FrozenInstanceError, match="cannot assign to field 'x'"):
        point.x = 2
    with pytest.raises(dataclasses.FrozenInstanceError, match="cannot delete field 'x'"):
        del point.x
    with pytest.raises(AttributeError):
        point.z = 2


def test_a_mutable_one_can_and_has_no_hash():
    row = Row(1)
    row.x = 5
    assert row == Row(5)
    with pytest.raises(TypeError):
        hash(row)
    with pytest.raises(AttributeError):
        row.z = 1


def test_without_eq_each_is_its_own():
    thing = Thing(1)
    assert thing == thing and thing != Thing(1) and len({thing, Thing(1)}) == 2


def test_fields_are_inherited_in_order_and_factories_run_each_time():
    first, second = Named(1), Named(2, 3, "m")
    assert [f.name for f in fields(first)] == ["x", "y", "name", "seen"]
    assert (first.seen, second.seen, second.name) == ([1], [2], "m")
    assert not hasattr(first, "__dict__")


def test_wrong_arguments_are_named():
    with pytest.raises(TypeError, match=r"Point.__init__\(\) missing .* 'x'"):
        Point()
    with pytest.raises(TypeError, match="unexpected keyword argument 'z'"):
        Point(1, z=2)


def test_a_copy_differs_in_what_is_given_only():
    assert replace(Point(1), y=9) == Point(1, 9)
    with pytest.raises(TypeError):
        replace(Point(1), z=1)


def test_the_standard_module_takes_it_for_one_of_its_own():
    assert dataclasses.is_dataclass(Caller) and dataclasses.is_dataclass(Caller("s"))
    assert dataclasses.asdict(Caller("s")) == {
        "scope": "s", "kind": "operator", "actor": "local", "token": None, "queues": None,
        "every_scope": True,
    }
    assert dataclasses.replace(Scope("s"), revoked=True) == Scope("s", revoked=True)
    assert [f.name for f in dataclasses.fields(Named(1))] == ["x", "y", "name", "seen"]
    assert dataclasses.astuple(Point(1)) == (1, 2)


def test_it_is_copied_and_pickled():
    for record in (Point(1), Row(1, 2), Scope("s")):
        assert copy.copy(record) == copy.deepcopy(record) == record
        assert pickle.loads(pickle.dumps(record)) == record  # noqa: S301  # our own bytes


def test_neither_the_import_nor_a_command_loads_the_standard_module(tmp_path):
    program = (
        "import sys, fencepost\n"
        "with fencepost.open('x.db', create=True) as fp: fp.enqueue('q', 1)\n"
        "print('dataclasses' in sys.modules, 'inspect' in sys.modules)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, env={"PYTHONPATH": str(ROOT)},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout == "False False\n"
