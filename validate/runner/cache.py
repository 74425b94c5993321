"""The runs of all rooms by name, and the lab that makes each once and keeps what came out."""

import copy
import functools
import hashlib
import importlib
import importlib.metadata
import importlib.util
import inspect
import json
import platform
import re
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import xarray as xr

from ...theory.annotations import as_annotated
from ...theory.validation import choice, integer, short_repr
from ..reference import files, read
from . import execute
from .declarations import LARGEST_SEED, PROFILES, Run, Section, as_list
from .tasks import Task

__all__ = [
    "LARGEST_SEED",
    "PACKAGES",
    "PARTS",
    "PHENOMENA",
    "ResultCache",
    "cache_folder",
    "code",
    "experiment",
    "runs",
    "schedule",
    "section",
    "version",
]  # fmt: skip

# In the order of the documentation; a folder with a section that is not named comes after these.
_FIRST = (
    "rug", "decoders", "codes", "sparsification", "collisions", "linear", "relu", "noise", "unequal",
    "computation", "sae",
)  # fmt: skip
_EXPERIMENTS = Path(__file__).parents[1] / "experiments"
_NO_PHENOMENA = ("atlas", "papers")
_FOLDERS = sorted(path.parent.name for path in _EXPERIMENTS.glob("*/__init__.py"))
PHENOMENA = (*_FIRST, *(name for name in _FOLDERS if name not in (*_FIRST, *_NO_PHENOMENA)))
PAPERS = sorted(path.stem for path in (_EXPERIMENTS / "papers").glob("[!_]*.py"))
TRAINING = "training"  # the room of the trainer, which has runs and no part of the page
PACKAGES = ("superposition", "numpy", "scipy", "sympy", "numba", "xarray", "matplotlib", "torch")

CHECKPOINT = ".checkpoint.npz"  # of a run that is under way
PARTS = "parts"  # what is kept of the finished topics and rows of a report, in its folder
DATA = "data"  # the pieces of runs


@as_annotated
def section(name: str) -> Section:
    """Return a phenomenon's part of the report, with the runs and topics of the papers that name it."""
    package = importlib.import_module(f"..experiments.{choice('name', name, PHENOMENA)}", __package__)
    if not hasattr(package, "SECTION"):
        package = importlib.import_module(f"{package.__name__}.section")
    found: Section = package.SECTION
    for paper in PAPERS:
        module = importlib.import_module(f"..experiments.papers.{paper}", __package__)
        if name == module.PHENOMENON:
            found = replace(found, runs={**found.runs, **module.RUNS}, topics=[*found.topics, *module.TOPICS])
    return found


@as_annotated
def runs(room: str = "") -> dict[str, Run]:
    """Return the runs of a room by their full names, such as ``"collisions.fig3"``; of all, if none is given.

    Examples
    --------
    >>> runs("collisions")["collisions.long"].stored
    'collisions_fig3'
    """
    if not room:
        return {name: run for one in (*PHENOMENA, TRAINING) for name, run in runs(one).items()}
    if choice("room", room, (*PHENOMENA, TRAINING)) == TRAINING:
        known: Mapping[str, Run] = importlib.import_module("..experiments.rug.grids", __package__).RUNS
    else:
        known = section(room).runs
    return {f"{room}.{own}": _with_name(run, f"{room}.{own}") for own, run in known.items()}


def _with_name(run: Run, name: str) -> Run:
    """Return a run with its full name; what else it holds was checked where it was declared."""
    named = copy.copy(run)
    object.__setattr__(named, "name", name)
    return named


@as_annotated
def experiment(name: str) -> Run:
    """Return a run by its full name, such as ``"collisions.fig3"``, or by that of its file.

    Raises
    ------
    ValueError
        If there is none.
    """
    room, dot, _ = name.partition(".")
    own = runs(room).get(name) if room in (*PHENOMENA, TRAINING) else None
    if own is None and not (dot and room in PHENOMENA):
        own = next((one for one in runs().values() if one.stored and one.file == name), None)
    if own is None:
        near = get_close_matches(name, runs(), 1)
        meant = f" (did you mean {near[0]}?)" if near else ""
        raise ValueError(
            "`name` must be a run, as phenomenon.name; `superposition run` lists them; "
            f"got {short_repr(name)}{meant}."
        )
    return own


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
def code(root: Path = Path(__file__).parents[2]) -> str:
    """Return a short text that changes with any file of the package and any version of its libraries."""
    seen = hashlib.sha256("\n".join((platform.python_version(), *map(version, PACKAGES))).encode())
    for floor in ("theory", "solvers", "validate"):
        for path in sorted((root / floor).rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                seen.update(f"{path.relative_to(root)}\n".encode())
                seen.update(path.read_bytes())
    return seen.hexdigest()


class ResultCache:
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
        For runs by name, settings in place of those of the profile.
    anew : mapping, optional
        Stored runs are made too, each result says how it was made, and functions that have these settings
        get them, such as a device.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     tiny = {"sparsification.fig7": {"m": 100, "lam": 0.02}}
    ...     ResultCache(Path(folder), changed=tiny)["sparsification.fig7"].attrs["m"]
    100
    """

    @as_annotated
    def __init__(
        self,
        folder: Path,
        profile: str = "quick",
        seed: int = 0,
        changed: Mapping[str, Mapping[str, Any]] | None = None,
        anew: Mapping[str, Any] | None = None,
    ) -> None:
        self.folder, self._anew = folder, anew
        self.profile = choice("profile", profile, PROFILES)
        self.seed = integer("seed", seed, 0, LARGEST_SEED)
        self._changed = changed or {}

    @as_annotated
    def settings(self, name: str) -> list[dict[str, Any]]:
        """Return the settings of each piece of a run."""
        return experiment(name).settings(self.profile, self.seed, self._changed.get(name))

    @as_annotated
    def given(self, name: str) -> dict[str, Any]:
        """Return all settings of a run together."""
        return experiment(name).given(self.profile, self.seed, self._changed.get(name))

    @as_annotated
    def is_changed(self, name: str) -> bool:
        """Whether a run has other settings than are declared."""
        return bool(self._changed.get(name))

    @as_annotated
    def available(self, name: str) -> bool:
        """Tell whether a run can be had here: it is stored, or what it needs is installed."""
        return self._is_stored(name) or not experiment(name).torch or _has_torch()

    def _is_stored(self, name: str) -> bool:
        dataset = experiment(name).stored
        if not dataset or self._anew is not None or self.is_changed(name):
            return False
        try:
            return dataset in read.checksums() and name in read.facts(dataset)
        except ValueError:  # the file is damaged, which is said where it is read
            return True

    @as_annotated
    def pieces(self, name: str) -> list[int]:
        """Return the numbers of the pieces of a run that are still to be made."""
        if self._is_stored(name):
            return []
        return [k for k in range(len(self.settings(name))) if self._read(name, k) is None]

    @as_annotated
    def run(self, name: str, piece: int) -> xr.Dataset:
        """Make a piece of a run, keep its data and return them."""
        path, note = self._paths(name, piece)
        one, given = experiment(name), self.settings(name)[piece]
        known = inspect.signature(one.function).parameters
        under_way = path.with_suffix(CHECKPOINT)
        how = {**(self._anew or {}), "checkpoint": str(under_way)}
        how = {key: value for key, value in how.items() if key in known and key not in given}
        path.parent.mkdir(exist_ok=True)
        ds = one.function(**given, **how) if self._anew is None else execute.run(one, given, how)
        files.write_dataset(path, ds)
        _write_note(note, self._made_with(name, piece), files.digest(path))
        if how.get("checkpoint") == str(under_way):  # which the function wrote, and nothing reads any more
            under_way.unlink(missing_ok=True)
        return files.read_dataset(path)

    @as_annotated
    def found(self, name: str) -> list[xr.Dataset]:
        """Return the data of the pieces of a run; what is missing is made first."""
        if self._is_stored(name):
            return [read.read(experiment(name).stored, run=name)]
        kept = [self._read(name, piece) for piece in range(len(self.settings(name)))]
        return [self.run(name, k) if one is None else one for k, one in enumerate(kept)]

    @as_annotated
    def paths(self, name: str) -> list[Path]:
        """Return the files in which the pieces of a run are kept."""
        return [path for k in range(len(self.settings(name))) for path in self._paths(name, k)]

    def __getitem__(self, name: str) -> xr.Dataset:
        """Return the data of a run; what is missing is made first."""
        return concat_pieces(self.found(name), experiment(name).along)

    @as_annotated
    def digest(self, name: str) -> str:
        """Return a short text that changes with the data of an experiment."""
        if self._is_stored(name):
            sums = [files.digest(read.REFERENCE / f"{experiment(name).stored}.nc"), name]
        else:
            sums = [files.digest(self._paths(name, k)[0]) for k in range(len(self.settings(name)))]
        return hashlib.sha256("".join(sums).encode()).hexdigest()

    @as_annotated
    def keep(self, name: str, needs: Collection[str], content: Any) -> None:
        """Keep plain data that follow from those of some experiments, which have to be there."""
        _write_note(self._place(name), self._key(name, needs), content)

    @as_annotated
    def kept(self, name: str, needs: Collection[str]) -> Any:
        """Return what is kept of that name; None if it is missing, damaged, or something has changed."""
        return _read_note(self._place(name), self._key(name, needs))

    def _place(self, name: str) -> Path:
        if not re.fullmatch(r"[\w.-]{1,200}", name):
            rule = "at most 200 letters, digits, underscores, dots and hyphens"
            raise ValueError(f"`name` must be {rule}; got {short_repr(name)}.")
        return self.folder / PARTS / f"{name}.json"

    def _key(self, name: str, needs: Collection[str]) -> list[Any]:
        data = [self.digest(one) if self.available(one) else "missing" for one in needs]
        return [code(), name, self.profile, self.seed, *data]

    def _paths(self, name: str, piece: int) -> tuple[Path, Path]:
        """Return the file of a piece and the note beside it, which says what made the file."""
        path = self.folder / DATA / f"{name.replace('.', '-')}-{piece}.nc"
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
    said = f"{files.quoted_path(path)} was damaged, or is missing; made anew"
    warnings.warn(said, RuntimeWarning, stacklevel=3)


def _sum(content: Any) -> str:
    text = json.dumps(content, default=as_list, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def _write_note(path: Path, key: Sequence[Any], content: Any) -> None:
    content = json.loads(json.dumps(content, default=as_list))  # lists for tuples, as it will be read
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


def concat_pieces(pieces: Sequence[xr.Dataset], along: str) -> xr.Dataset:
    """Return the pieces of a run side by side."""
    if len(pieces) == 1:
        return pieces[0]
    # Said, not left to xarray, whose defaults are about to change.
    how: dict[str, Any] = {"data_vars": "minimal", "coords": "different", "compat": "equals"}
    return xr.concat(pieces, along, combine_attrs="drop_conflicts", **how)


@contextmanager
@as_annotated
def cache_folder(*, data: str | Path | None = None) -> Iterator[Path]:
    """Give the folder of a report, kept from others meanwhile, or, if there is none, one for the time being.

    Examples
    --------
    >>> with cache_folder() as folder:
    ...     folder.is_dir()
    True
    """
    if data is None:
        with TemporaryDirectory() as place:
            yield Path(place)
        return
    with files.exclusive_folder(data, "data") as folder:
        yield folder


@as_annotated
def schedule(
    lab: ResultCache, works: Iterable[tuple[str, Callable[..., Any], Collection[str], Any]]
) -> list[Task]:
    """List the tasks that run what is missing of experiments, and after them those that work on their data.

    Each of `works` is its name, a function of a module, the runs that it needs, and what the function gets
    after the lab.
    """
    works = list(works)
    pieces: dict[str, list[Task]] = {}
    for name in dict.fromkeys(need for _, _, needs, _ in works for need in needs):
        todo = lab.pieces(name) if lab.available(name) else []
        cost = experiment(name).seconds
        pieces[name] = [Task(f"{name} {k}", _make, (lab, name, k), seconds=cost) for k in todo]
    found = [task for made in pieces.values() for task in made]
    for name, work, needs, more in works:
        after = [piece.name for need in needs for piece in pieces[need]]
        found.append(Task(name, work, (lab, *more), after))
    return found


def _make(lab: ResultCache, name: str, piece: int) -> None:
    lab.run(name, piece)  # the data stay where they are
