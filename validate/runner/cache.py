"""Results of runs in a folder, each with a checksum of code, libraries, settings and seed."""

import hashlib
import importlib.util
import inspect
import json
import re
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import xarray as xr

from ...theory.annotations import as_annotated
from ...theory.validation import choice, integer, short_repr
from ..reference import files, read
from . import execute, registry
from .declarations import LARGEST_SEED, PROFILES, as_list
from .provenance import code_digest
from .tasks import Task

__all__ = ["NOTES_FOLDER", "DataTask", "ResultCache", "cache_folder", "plan_tasks"]

CHECKPOINT = ".checkpoint.npz"  # suffix of the checkpoint of a piece that is being run
NOTES_FOLDER = "parts"  # finished topics and rows of a report
PIECES_FOLDER = "data"  # pieces of runs


class ResultCache:
    """Datasets of runs by name, computed once and stored in `folder`, and notes on results from them.

    A run is computed and stored in pieces. A note beside each piece's file has a checksum of code, libraries,
    settings and seed: if one of these changes, or the file is damaged, which gives a warning, the piece is
    run again. `overrides` are settings of runs, by name, that replace those of the profile. `remake_with` are
    settings that change no number, such as a device, for functions that have them; if it is not None, runs of
    the stored datasets are run too, and the attributes of each result say how it was made.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     tiny = {"sparsification.fig7": {"m": 100, "lam": 0.02}}
    ...     ResultCache(Path(folder), overrides=tiny)["sparsification.fig7"].attrs["m"]
    100
    """

    @as_annotated
    def __init__(
        self,
        folder: Path,
        profile: str = "quick",
        seed: int = 0,
        overrides: Mapping[str, Mapping[str, Any]] | None = None,
        remake_with: Mapping[str, Any] | None = None,
    ) -> None:
        self.folder, self._remake_with = folder, remake_with
        self.profile = choice("profile", profile, PROFILES)
        self.seed = integer("seed", seed, 0, LARGEST_SEED)
        self._overrides = overrides or {}

    @as_annotated
    def piece_settings(self, name: str) -> list[dict[str, Any]]:
        """Return the settings of each piece of the run `name`, a part computed and stored by itself."""
        return registry.find_run(name).piece_settings(self.profile, self.seed, self._overrides.get(name))

    @as_annotated
    def is_available(self, name: str) -> bool:
        """Return whether the run `name` is stored or can be run: PyTorch is installed or not needed."""
        return self._is_stored(name) or not registry.find_run(name).torch or _has_torch()

    def _is_stored(self, name: str) -> bool:
        """Return whether the run `name` is read from the stored datasets, with its declared settings."""
        dataset = registry.find_run(name).dataset
        if not dataset or self._remake_with is not None or self._overrides.get(name):
            return False
        try:
            return dataset in read.checksums() and name in read.facts(dataset)
        except ValueError:  # the file is damaged: reading it says so
            return True

    @as_annotated
    def missing_pieces(self, name: str) -> list[int]:
        """Return the numbers of the pieces, separately computed parts, of the run `name` that have no file.

        A file counts if it is undamaged and made by the same code with the same seed and settings.
        """
        if self._is_stored(name):
            return []
        return [k for k in range(len(self.piece_settings(name))) if self._read_piece(name, k) is None]

    @as_annotated
    def run_piece(self, name: str, piece: int) -> xr.Dataset:
        """Run part number `piece` of the run `name`, store its dataset in the folder and return it."""
        path, note = self._paths(name, piece)
        run, settings = registry.find_run(name), self.piece_settings(name)[piece]
        parameters = inspect.signature(run.function).parameters
        checkpoint = path.with_suffix(CHECKPOINT)
        extra = {**(self._remake_with or {}), "checkpoint": str(checkpoint)}
        extra = {key: value for key, value in extra.items() if key in parameters and key not in settings}
        path.parent.mkdir(exist_ok=True)
        if self._remake_with is None:
            ds = run.function(**settings, **extra)
        else:
            ds = execute.run_with_provenance(run, settings, extra)
        files.write_dataset(path, ds)
        _write_note(note, self._piece_key(name, piece), files.digest(path))
        if extra.get("checkpoint") == str(checkpoint):  # written by the function, of no use any more
            checkpoint.unlink(missing_ok=True)
        return files.read_dataset(path)

    @as_annotated
    def load_pieces(self, name: str) -> list[xr.Dataset]:
        """Return the datasets of the pieces of the run `name`, the parts that are computed separately.

        Missing pieces are run first; a run that the stored datasets have is a single piece.
        """
        if self._is_stored(name):
            return [read.read(registry.find_run(name).dataset, run=name)]
        pieces = [self._read_piece(name, k) for k in range(len(self.piece_settings(name)))]
        return [self.run_piece(name, k) if ds is None else ds for k, ds in enumerate(pieces)]

    def __getitem__(self, name: str) -> xr.Dataset:
        """Return the dataset of the run `name`; missing pieces are run first."""
        return concat_pieces(self.load_pieces(name), registry.find_run(name).concat_dim)

    @as_annotated
    def digest(self, name: str) -> str:
        """Return a checksum of the files that hold the data of the run `name`."""
        if self._is_stored(name):
            sums = [files.digest(read.REFERENCE / f"{registry.find_run(name).dataset}.nc"), name]
        else:
            sums = [files.digest(self._paths(name, k)[0]) for k in range(len(self.piece_settings(name)))]
        return hashlib.sha256("".join(sums).encode()).hexdigest()

    @as_annotated
    def store_note(self, name: str, needs: Collection[str], content: Any) -> None:
        """Store `content` as JSON under a name; it is valid until code or data of the runs `needs` change."""
        _write_note(self._note_path(name), self._note_key(name, needs), content)

    @as_annotated
    def read_note(self, name: str, needs: Collection[str]) -> Any:
        """Return the content that `store_note` stored; None if missing, damaged, or of other data or code.

        `name` is the name of the note, `needs` are the names of the runs on whose data its content depends.
        """
        return _read_note(self._note_path(name), self._note_key(name, needs))

    def _note_path(self, name: str) -> Path:
        """Return the path of a note, stored JSON; ValueError for a name that is no file name."""
        if not re.fullmatch(r"[\w.-]{1,200}", name):
            rule = "at most 200 letters, digits, underscores, dots and hyphens"
            raise ValueError(f"`name` must be {rule}; got {short_repr(name)}.")
        return self.folder / NOTES_FOLDER / f"{name}.json"

    def _note_key(self, name: str, needs: Collection[str]) -> list[Any]:
        """Return the values on which a note depends: code, name, profile, seed, and data of the runs `needs`.

        A note is stored JSON, `name` its name; the profile is "quick" or "full".
        """
        digests = [self.digest(need) if self.is_available(need) else "missing" for need in needs]
        return [code_digest(), name, self.profile, self.seed, *digests]

    def _paths(self, name: str, piece: int) -> tuple[Path, Path]:
        """Return (path of the dataset, path of its note) of piece number `piece` of the run `name`.

        A piece is a part of the run that is computed by itself; its note is JSON with the dataset's checksum.
        """
        path = self.folder / PIECES_FOLDER / f"{name.replace('.', '-')}-{piece}.nc"
        return path, path.with_suffix(".json")

    def _piece_key(self, name: str, piece: int) -> list[Any]:
        """Return the values on which a piece of the run `name` depends: code, name, seed, and its settings.

        A piece is a part of the run that is computed by itself, `piece` its number.
        """
        return [code_digest(), name, self.seed, self.piece_settings(name)[piece]]

    def _read_piece(self, name: str, piece: int) -> xr.Dataset | None:
        """Return the stored dataset of a piece, a part of the run `name`; None if there is no valid one.

        A valid one is undamaged and made by the same code with the same seed and settings. `piece` is the
        piece's number.
        """
        path, note = self._paths(name, piece)
        checksum = _read_note(note, self._piece_key(name, piece), required=path.exists())
        if checksum is not None and checksum == files.digest(path):
            with suppress(ValueError):
                return files.read_dataset(path)
        if checksum is not None:
            _warn_damaged(path)
        return None


def _warn_damaged(path: Path) -> None:
    """Warn that a file was damaged or is missing, and is made anew."""
    message = f"{files.quoted_path(path)} was damaged, or is missing; made anew"
    warnings.warn(message, RuntimeWarning, stacklevel=3)


def _json_digest(content: Any) -> str:
    """Return the SHA-256 of content as JSON with sorted keys."""
    text = json.dumps(content, default=as_list, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def _write_note(path: Path, key: Sequence[Any], content: Any) -> None:
    """Write a note: content, with the checksum of its `key` (what it depends on), and a checksum of both."""
    content = json.loads(json.dumps(content, default=as_list))  # lists for tuples, as it will be read
    path.parent.mkdir(exist_ok=True)
    note = {"key": _json_digest(key), "content": content}
    files.write_text(path, json.dumps({**note, "sum": _json_digest(note)}))


def _read_note(path: Path, key: Sequence[Any], required: bool = False) -> Any:
    """Return the content of a note; None if its key differs, or, with a warning, if it is damaged.

    The `key` has the values on which the note depends. A missing note counts as damaged if it is `required`.
    """
    try:
        note = json.loads(path.read_text(encoding="utf-8"))
        if note.pop("sum") == _json_digest(note):
            return note["content"] if note["key"] == _json_digest(key) else None
    except FileNotFoundError:
        if not required:
            return None
    except (AttributeError, KeyError, OSError, TypeError, ValueError):
        pass
    _warn_damaged(path)
    return None


def _has_torch() -> bool:
    """Return whether PyTorch is installed."""
    try:
        return importlib.util.find_spec("torch") is not None
    except ImportError:  # a test may hide it so
        return False


def concat_pieces(pieces: Sequence[xr.Dataset], dim: str) -> xr.Dataset:
    """Return the pieces of a run concatenated along `dim`; a single piece is returned unchanged."""
    if len(pieces) == 1:
        return pieces[0]
    # The defaults of xarray for these are about to change.
    options: dict[str, Any] = {"data_vars": "minimal", "coords": "different", "compat": "equals"}
    return xr.concat(pieces, dim, combine_attrs="drop_conflicts", **options)


@contextmanager
@as_annotated
def cache_folder(*, data: str | Path | None = None) -> Iterator[Path]:
    """Give the folder `data` of a report, locked against other processes; by default a temporary folder."""
    with TemporaryDirectory() if data is None else files.exclusive_folder(data, "data") as folder:
        yield Path(folder)


class DataTask(NamedTuple):
    """A call ``function(results, *arguments)`` on the data of the runs `needs`, by a module's function."""

    name: str
    function: Callable[..., Any]
    needs: Collection[str]
    arguments: tuple[Any, ...]


@as_annotated
def plan_tasks(results: ResultCache, works: Iterable[DataTask]) -> list[Task]:
    """Return tasks for all missing pieces of runs that `works` need, then a task for each of `works`.

    A piece is a part of a run that is computed by itself. Each of `works` is a call ``function(results,
    *arguments)`` with the names of the runs that it needs. `results` has the pieces that are not missing, and
    stores the others.
    """
    works = list(works)
    pieces: dict[str, list[Task]] = {}
    for name in dict.fromkeys(need for work in works for need in work.needs):
        missing = results.missing_pieces(name) if results.is_available(name) else []
        seconds = registry.find_run(name).seconds
        pieces[name] = [Task(f"{name} {k}", _run_piece, (results, name, k), (), seconds) for k in missing]
    tasks = [task for piece_tasks in pieces.values() for task in piece_tasks]
    for work in works:
        dependencies = [piece.name for need in work.needs for piece in pieces[need]]
        tasks.append(Task(work.name, work.function, (results, *work.arguments), dependencies))
    return tasks


def _run_piece(results: ResultCache, name: str, piece: int) -> None:
    """Run piece number `piece` of the run `name`, a part computed by itself, and store it in `results`."""
    results.run_piece(name, piece)
