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
    """Draw the first figure of each topic with a headline as SVG; return the paths of the pictures.

    A topic is a part of a phenomenon's section in the report.

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
        Folder of a report: its finished runs are read, and runs that are missing there are added.

    Returns
    -------
    list of Path
        The pictures. Without PyTorch, those of topics that need it are left out.
    """
    names = registry.PHENOMENA if only is None else only
    phenomena = [choice("only", name, registry.PHENOMENA) for name in names]
    is_same = data is not None and Path(out).resolve() == Path(data).resolve()
    with (
        cache_folder(data=data) as cache,
        nullcontext(cache) if is_same else files.exclusive_folder(out) as folder,
    ):
        results = ResultCache(cache, seed=seed)
        paths: list[Path] = []
        for phenomenon in phenomena:
            first = files.output_file(folder / f"{phenomenon}.svg", "out")
            for topic in registry.load_section(phenomenon).topics:
                needs = topic.run_names(phenomenon)
                if not all(map(results.is_available, needs)):
                    continue
                progress(f"gallery: {phenomenon}, {topic.name}")
                content = topic.content(*(results[need] for need in needs))
                if content.headline and content.figures:
                    path = folder / f"{phenomenon}-{topic.name}.svg" if first in paths else first
                    files.write_text(path, svg(content.figures[0]))
                    paths.append(path)
    return paths
