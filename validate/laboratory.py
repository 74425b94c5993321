"""The experiments of all packages by name, and the lab that runs each once and keeps what came out."""

import functools
import hashlib
import importlib
import importlib.metadata
import importlib.util
import json
import platform
import re
import warnings
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import xarray as xr

from ..theory.arguments import choice, integer, shown
from . import files
from .annotations import as_annotated
from .experiment import PROFILES, Experiment, Section
from .stored import REFERENCE, read_reference
from .tasks import Task

__all__ = [
    "LARGEST_SEED", "PACKAGES", "PARTS", "PHENOMENA", "Lab", "code", "experiment", "schedule", "section",
    "version",
]  # fmt: skip

PHENOMENA = (
    "rug", "decoders", "codes", "sparsification", "collisions", "noise", "linear", "relu", "unequal",
    "computation", "sae",
)  # fmt: skip
PACKAGES = ("superposition", "numpy", "scipy", "sympy", "numba", "xarray", "matplotlib", "torch")

PARTS = "parts"  # what is kept of the finished topics and rows of a report, in its folder

# Files in netCDF-3 hold integers below 2^31; runs of one experiment count their seeds up from this.
LARGEST_SEED = 2**30


@as_annotated
def section(name: str) -> Section:
    """Return a phenomenon's part of the report."""
    module = importlib.import_module(f".{choice('name', name, PHENOMENA)}.section", __package__)
    found: Section = module.SECTION
    return found


@as_annotated
def experiment(name: str) -> Experiment:
    """Return an experiment by its full name, such as ``"collisions.fig3"``; a ValueError if there is none."""
    room, _, own = name.partition(".")
    known = section(room).experiments if room in PHENOMENA else {}
    if own not in known:
        raise ValueError(f"`name` must be an experiment, as phenomenon.name; got {name!r}.")
    return known[own]


@functools.cache
@as_annotated
def version(package: str) -> str:
    """Return the version of an installed package, or that it is missing."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


@functools.cache
@as_annotated
def code(root: Path = Path(__file__).parents[1]) -> str:
    """Return a short text that changes with any file of the package and any version of its libraries."""
    seen = hashlib.sha256("\n".join((platform.python_version(), *map(version, PACKAGES))).encode())
    for floor in ("theory", "solvers", "validate"):
        for path in sorted((root / floor).rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                seen.update(f"{path.relative_to(root)}\n".encode())
                seen.update(path.read_bytes())
    return seen.hexdigest()


class Lab:
    """Datasets of experiments by name, each run once and kept in a folder, and what follows from them.

    Parameters
    ----------
    folder : Path
        Where the data are kept. What other code, libraries, settings or another seed made is not used: a note
        beside each file has a checksum of all that it depends on. What is damaged is made anew, with a
        warning.
    profile : {"quick", "full"}, optional
    seed : int, optional
        Seed of everything random.
    changed : mapping, optional
        For experiments by name, settings in place of those of the profile.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     tiny = {"sparsification.fig7": {"m": 100, "lam": 0.02}}
    ...     Lab(Path(folder), changed=tiny)["sparsification.fig7"].attrs["m"]
    100
    """

    @as_annotated
    def __init__(
        self,
        folder: Path,
        profile: str = "quick",
        seed: int = 0,
        changed: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> None:
        self.folder = folder
        self.profile = choice("profile", profile, PROFILES)
        self.seed = integer("seed", seed, 0, LARGEST_SEED)
        self._changed = changed or {}

    @as_annotated
    def settings(self, name: str) -> list[dict[str, Any]]:
        """Return the settings of each piece of an experiment."""
        return experiment(name).settings(self.profile, self.seed, self._changed.get(name))

    @staticmethod
    def available(name: str) -> bool:
        """Tell whether an experiment can be had here: it is stored, or what it needs is installed."""
        made = experiment(name)
        return _is_stored(made) or not made.torch or _has_torch()

    @as_annotated
    def pieces(self, name: str) -> list[int]:
        """Return the numbers of the pieces of an experiment that are still to be run."""
        if _is_stored(experiment(name)):
            return []
        return [k for k in range(len(self.settings(name))) if self._read(name, k) is None]

    @as_annotated
    def run(self, name: str, piece: int) -> xr.Dataset:
        """Run a piece of an experiment, keep its data and return them."""
        path, note = self._paths(name, piece)
        ds = experiment(name).run(**self.settings(name)[piece])
        path.parent.mkdir(exist_ok=True)
        with files.recorded(self.folder):
            files.write_dataset(path, ds)
            _write_note(note, self._made_with(name, piece), files.digest(path))
        return files.read_dataset(path)

    def __getitem__(self, name: str) -> xr.Dataset:
        """Return the data of an experiment; what is missing is run first."""
        made = experiment(name)
        if _is_stored(made):
            return read_reference(made.stored)
        found = []
        for piece in range(len(self.settings(name))):
            kept = self._read(name, piece)
            found.append(self.run(name, piece) if kept is None else kept)
        if made.apart is None:
            return found[0]
        # Said, not left to xarray, whose defaults are about to change.
        how: dict[str, Any] = {"data_vars": "minimal", "coords": "different", "compat": "equals"}
        return xr.concat(found, made.apart[1], combine_attrs="drop_conflicts", **how)

    @as_annotated
    def digest(self, name: str) -> str:
        """Return a short text that changes with the data of an experiment."""
        made = experiment(name)
        pieces = range(0 if _is_stored(made) else len(self.settings(name)))
        paths = [REFERENCE / made.stored, *(self._paths(name, piece)[0] for piece in pieces)]
        return hashlib.sha256("".join(map(files.digest, paths)).encode()).hexdigest()

    @as_annotated
    def keep(self, name: str, needs: Collection[str], content: Any) -> None:
        """Keep plain data that follow from those of some experiments, which have to be there."""
        with files.recorded(self.folder):
            _write_note(self._place(name), self._key(name, needs), content)

    @as_annotated
    def kept(self, name: str, needs: Collection[str]) -> Any:
        """Return what is kept of that name; None if it is missing, damaged, or something has changed."""
        return _read_note(self._place(name), self._key(name, needs))

    def _place(self, name: str) -> Path:
        if not re.fullmatch(r"[\w.-]{1,200}", name):
            rule = "at most 200 letters, digits, underscores, dots and hyphens"
            raise ValueError(f"`name` must be {rule}; got {shown(name)}.")
        return self.folder / PARTS / f"{name}.json"

    def _key(self, name: str, needs: Collection[str]) -> list[Any]:
        data = [self.digest(one) if self.available(one) else "missing" for one in needs]
        return [code(), name, self.profile, self.seed, *data]

    def _paths(self, name: str, piece: int) -> tuple[Path, Path]:
        """Return the file of a piece and the note beside it, which says what made the file."""
        path = self.folder / "data" / f"{name.replace('.', '-')}-{piece}.nc"
        return path, path.with_suffix(".json")

    def _made_with(self, name: str, piece: int) -> list[Any]:
        return [code(), name, self.seed, self.settings(name)[piece]]

    def _read(self, name: str, piece: int) -> xr.Dataset | None:
        """Return what is kept of a piece; None if it is missing, damaged or made otherwise."""
        path, note = self._paths(name, piece)
        if note.exists() or path.exists():
            kept = _read_note(note, self._made_with(name, piece), path.exists())
            if kept is not None and kept == files.digest(path):
                with suppress(ValueError):
                    return files.read_dataset(path)
            if kept is not None:
                _warn(path)
        return None


def _warn(path: Path) -> None:
    said = f"{files.named(path)} was damaged, or is missing; made anew"
    warnings.warn(said, RuntimeWarning, stacklevel=3)


def _sum(content: Any) -> str:
    text = json.dumps(content, default=_plain, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def _write_note(path: Path, key: Sequence[Any], content: Any) -> None:
    content = json.loads(json.dumps(content, default=_plain))  # lists for tuples, as it will be read
    path.parent.mkdir(exist_ok=True)
    note = {"key": _sum(key), "content": content}
    files.write_text(path, json.dumps({**note, "sum": _sum(note)}))


def _read_note(path: Path, key: Sequence[Any], needed: bool = False) -> Any:
    """Return the content of a note; None if it was made with something else, or is damaged, with a warning.

    It is damaged also if it is missing, but `needed`.
    """
    try:
        note = json.loads(path.read_text(encoding="utf-8"))
        if note.pop("sum") == _sum(note):
            return note["content"] if note["key"] == _sum(key) else None
    except FileNotFoundError:
        if not needed:
            return None
    except (AttributeError, KeyError, OSError, TypeError, ValueError):
        pass
    _warn(path)
    return None


def _has_torch() -> bool:
    try:
        return importlib.util.find_spec("torch") is not None
    except ImportError:  # someone hides it
        return False


def _is_stored(made: Experiment) -> bool:
    return bool(made.stored) and (REFERENCE / made.stored).is_file()


def _plain(value: Any) -> Any:
    return value.tolist() if hasattr(value, "tolist") else list(value)


@as_annotated
def schedule(lab: Lab, works: Iterable[tuple[str, Callable[..., Any], Collection[str], Any]]) -> list[Task]:
    """List the tasks that run what is missing of experiments, and after them those that work on their data.

    Each of `works` is its name, a function of a module, the experiments that it needs, and what the function
    gets after the lab's folder, profile and seed.
    """
    works, settings = list(works), (lab.folder, lab.profile, lab.seed)
    pieces: dict[str, list[Task]] = {}
    for name in dict.fromkeys(need for _, _, needs, _ in works for need in needs):
        todo = lab.pieces(name) if lab.available(name) else []
        cost = experiment(name).seconds
        pieces[name] = [Task(f"{name} {k}", _run_piece, (*settings, name, k), seconds=cost) for k in todo]
    found = [task for made in pieces.values() for task in made]
    for name, work, needs, more in works:
        after = [piece.name for need in needs for piece in pieces[need]]
        found.append(Task(name, work, (*settings, *more), after))
    return found


def _run_piece(folder: Path, profile: str, seed: int, name: str, piece: int) -> None:
    Lab(folder, profile, seed).run(name, piece)
