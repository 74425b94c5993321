"""Pictures of what matters most in each phenomenon, theory beside experiment, as the README shows them."""

from collections.abc import Callable, Iterable
from contextlib import nullcontext
from pathlib import Path

from ...theory.annotations import as_annotated
from ...theory.validation import choice
from ..experiments.drawing import svg
from ..reference import files
from ..runner import registry
from ..runner.cache import ResultCache, cache_folder
from .build import full_names

__all__ = ["write_gallery"]


@as_annotated
def write_gallery(
    out: str | Path,
    only: Iterable[str] | None = None,
    seed: int = 0,
    progress: Callable[[str], None] = lambda line: None,
    *,
    data: str | Path | None = None,
) -> list[Path]:
    """Draw the first figure of each topic of the report that has a headline.

    Parameters
    ----------
    out : str or Path
        Folder; made if it does not exist, and else empty or one that this program fills. A phenomenon's first
        picture in it is ``<phenomenon>.svg``, others are ``<phenomenon>-<topic>.svg``; each is replaced whole
        or not at all.
    only : iterable of str, optional
        Phenomena; all of them if not given.
    seed : int, optional
        Seed of everything random that is not stored, from 0 to 2^30. The same seed gives the same bytes.
    progress : callable, optional
        Called with a line of text for each topic.
    data : str or Path, optional
        Folder of a report, whose runs are not made again, and in which new ones are kept.

    Returns
    -------
    list of Path
        The pictures. What needs PyTorch, where there is none, is left out.

    Raises
    ------
    ValueError
        If an argument is out of range, or a folder holds files and is not marked as ours.
    """
    rooms = [
        choice("only", name, registry.PHENOMENA) for name in (registry.PHENOMENA if only is None else only)
    ]
    same = data is not None and Path(out).resolve() == Path(data).resolve()
    with (
        cache_folder(data=data) as place,
        nullcontext(place) if same else files.exclusive_folder(out) as folder,
    ):
        results = ResultCache(place, seed=seed)
        written: list[Path] = []
        for room in rooms:
            first = files.output_file(folder / f"{room}.svg", "out")
            for topic in registry.load_section(room).topics:
                needs = full_names(room, topic)
                if not all(map(results.is_available, needs)):
                    continue
                progress(f"gallery: {room}, {topic.name}")
                shown = topic.content(*(results[need] for need in needs))
                if shown.headline and shown.figures:
                    path = folder / f"{room}-{topic.name}.svg" if first in written else first
                    files.write_text(path, svg(shown.figures[0]))
                    written.append(path)
    return written
