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

__all__ = ["PACKAGES", "PHENOMENA", "Lab", "code", "experiment", "pieces_of", "section", "version"]

PHENOMENA = ("rug", "codes", "sparsification", "collisions", "noise", "linear", "relu")
PACKAGES = ("superposition", "numpy", "scipy", "sympy", "numba", "xarray", "matplotlib", "torch")


def section(name: str) -> Section:
    """Return a phenomenon's part of the report."""
    module = importlib.import_module(f".{choice('name', name, PHENOMENA)}.section", __package__)
    found: Section = module.SECTION
    return found


def experiment(name: str) -> Experiment:
    """Return an experiment by its full name, such as ``"collisions.fig3"``.

    Raises
    ------
    ValueError
        If there is none of this name.
    """
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
    ...     Lab(Path(folder))["rug.picture"].attrs["n_hidden"]
    40
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
        self.seed = integer("seed", seed, 0)
        self._changed = changed or {}

    def settings(self, name: str) -> list[dict[str, Any]]:
        """Return the settings of each piece of an experiment."""
        return experiment(name).settings(self.profile, self.seed, self._changed.get(name))

    @staticmethod
    def available(name: str) -> bool:
        """Tell whether an experiment can be had here: it is stored, or what it needs is installed."""
        made = experiment(name)
        return _is_stored(made) or not made.torch or importlib.util.find_spec("torch") is not None

    def pieces(self, name: str) -> list[int]:
        """Return the numbers of the pieces of an experiment that are still to be run."""
        if _is_stored(experiment(name)):
            return []
        count = len(self.settings(name))
        return [k for k in range(count) if self._read(name, k) is None]

    def run(self, name: str, piece: int) -> None:
        """Run a piece of an experiment and keep its data."""
        made = experiment(name)
        settings = self.settings(name)[piece]
        ds = made.run(**settings).assign_attrs(key=self._key(name, piece))
        path = self._path(name, piece)
        path.parent.mkdir(exist_ok=True)
        files.write_dataset(path, ds)

    def __getitem__(self, name: str) -> xr.Dataset:
        """Return the data of an experiment; what is missing is run first."""
        made = experiment(name)
        if _is_stored(made):
            return read_reference(made.stored)
        for piece in self.pieces(name):
            self.run(name, piece)
        parts = [self._read(name, k) for k in range(len(self.settings(name)))]
        read = [_without_key(part) for part in parts if part is not None]
        if made.apart is None:
            return read[0]
        return xr.concat(read, made.apart[1], combine_attrs="drop_conflicts", data_vars="minimal")

    def digest(self, name: str) -> str:
        """Return a short text that changes with the data of an experiment."""
        made = experiment(name)
        count = len(self.settings(name))
        paths = [REFERENCE / made.stored] if _is_stored(made) else [self._path(name, k) for k in range(count)]
        return hashlib.sha256(b"".join(files.digest(path).encode() for path in paths)).hexdigest()

    def _path(self, name: str, piece: int) -> Path:
        return self.folder / "data" / f"{name.replace('.', '-')}-{piece}.nc"

    def _key(self, name: str, piece: int) -> str:
        settings = self.settings(name)[piece]
        text = json.dumps([code(), name, self.seed, settings], default=_plain, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()

    def _read(self, name: str, piece: int) -> xr.Dataset | None:
        """Return what is kept of a piece; None if it is missing, damaged or made otherwise."""
        path = self._path(name, piece)
        if not path.is_file():
            return None
        try:
            ds = files.read_dataset(path)
        except ValueError:
            return None
        return ds if ds.attrs.get("key") == self._key(name, piece) else None


def _is_stored(made: Experiment) -> bool:
    return bool(made.stored) and (REFERENCE / made.stored).is_file()


def _without_key(ds: xr.Dataset) -> xr.Dataset:
    kept = {name: value for name, value in ds.attrs.items() if name != "key"}
    return ds.drop_attrs(deep=False).assign_attrs(kept)


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
