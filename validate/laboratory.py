"""The experiments of all rooms by name, and the lab that runs each once and keeps what came out."""

import functools
import hashlib
import importlib
import importlib.metadata
import importlib.util
import json
import platform
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import xarray as xr

from ..theory.arguments import choice, integer
from . import files
from .experiment import PROFILES, Experiment, Section
from .stored import REFERENCE, read_reference
from .tasks import Task

__all__ = [
    "LARGEST_SEED",
    "PACKAGES",
    "PHENOMENA",
    "Lab",
    "code",
    "experiment",
    "pieces_of",
    "section",
    "version",
]

PHENOMENA = ("rug", "decoders", "codes", "sparsification", "collisions", "noise", "linear", "relu")
PACKAGES = ("superposition", "numpy", "scipy", "sympy", "numba", "xarray", "matplotlib", "torch")

# Files in netCDF-3 hold integers below 2^31; runs of one experiment count their seeds up from this.
LARGEST_SEED = 2**30


def section(name: str) -> Section:
    """Return a phenomenon's part of the report."""
    module = importlib.import_module(f".{choice('name', name, PHENOMENA)}.section", __package__)
    found: Section = module.SECTION
    return found


def experiment(name: str) -> Experiment:
    """Return an experiment by its full name, such as ``"collisions.fig3"``; a ValueError if there is none."""
    room, _, own = name.partition(".")
    known = section(room).experiments if room in PHENOMENA else {}
    if own not in known:
        raise ValueError(f"`name` must be an experiment, as phenomenon.name; got {name!r}.")
    return known[own]


def version(package: str) -> str:
    """Return the version of an installed package, or that it is missing."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


@functools.cache
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
    """Datasets of experiments by name, each run once and kept in a folder.

    Parameters
    ----------
    folder : Path
        Where the data are kept. Data that other code, libraries, settings or another seed made are not used.
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

    def settings(self, name: str) -> list[dict[str, Any]]:
        """Return the settings of each piece of an experiment."""
        return experiment(name).settings(self.profile, self.seed, self._changed.get(name))

    @staticmethod
    def available(name: str) -> bool:
        """Tell whether an experiment can be had here: it is stored, or what it needs is installed."""
        made = experiment(name)
        return _is_stored(made) or not made.torch or _has_torch()

    def pieces(self, name: str) -> list[int]:
        """Return the numbers of the pieces of an experiment that are still to be run."""
        if _is_stored(experiment(name)):
            return []
        return [k for k in range(len(self.settings(name))) if self._read(name, k) is None]

    def run(self, name: str, piece: int) -> xr.Dataset:
        """Run a piece of an experiment, keep its data and return them."""
        path, note = self._paths(name, piece)
        ds = experiment(name).run(**self.settings(name)[piece])
        path.parent.mkdir(exist_ok=True)
        files.write_dataset(path, ds)
        files.write_text(note, json.dumps(self._label(name, piece)))
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

    def digest(self, name: str) -> str:
        """Return a short text that changes with the data of an experiment."""
        made = experiment(name)
        pieces = range(0 if _is_stored(made) else len(self.settings(name)))
        paths = [REFERENCE / made.stored, *(self._paths(name, piece)[0] for piece in pieces)]
        return hashlib.sha256("".join(map(files.digest, paths)).encode()).hexdigest()

    def _paths(self, name: str, piece: int) -> tuple[Path, Path]:
        """Return the file of a piece and the note beside it, which says what made the file."""
        path = self.folder / "data" / f"{name.replace('.', '-')}-{piece}.nc"
        return path, path.with_suffix(".json")

    def _label(self, name: str, piece: int) -> dict[str, str]:
        made_with = [code(), name, self.seed, self.settings(name)[piece]]
        text = json.dumps(made_with, default=_plain, sort_keys=True)
        key = hashlib.sha256(text.encode()).hexdigest()
        return {"key": key, "sum": files.digest(self._paths(name, piece)[0])}

    def _read(self, name: str, piece: int) -> xr.Dataset | None:
        """Return what is kept of a piece; None if it is missing, damaged or made otherwise."""
        path, note = self._paths(name, piece)
        try:
            same = json.loads(note.read_text(encoding="utf-8")) == self._label(name, piece)
            return files.read_dataset(path) if same else None
        except (OSError, ValueError):
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


def pieces_of(lab: Lab, names: Iterable[str]) -> tuple[list[Task], dict[str, list[str]]]:
    """List the tasks that run what is missing of some experiments, and for each experiment their names."""
    found: list[Task] = []
    by_name: dict[str, list[str]] = {}
    for name in dict.fromkeys(names):
        settings = (lab.folder, lab.profile, lab.seed, name)
        todo = lab.pieces(name) if lab.available(name) else []
        cost = experiment(name).seconds
        made = [Task(f"{name} {k}", _run_piece, (*settings, k), seconds=cost) for k in todo]
        by_name[name] = [task.name for task in made]
        found += made
    return found, by_name


def _run_piece(folder: Path, profile: str, seed: int, name: str, piece: int) -> None:
    Lab(folder, profile, seed).run(name, piece)
