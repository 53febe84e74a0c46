"""A faster start of nested functions in Triton's interpreter."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import pytest


@contextmanager
def patched_once() -> Iterator[None]:
    """Let the interpreter replace the functions of Triton's language once per kernel.

    It replaces them again whenever a kernel calls another function, with the same result, which takes 40 % of its time.
    """
    from triton import language
    from triton.runtime import interpreter

    patch = getattr(interpreter, "_patch_lang", None)
    if patch is None or not hasattr(interpreter, "_LangPatchScope"):  # another version of Triton: as slow as it is
        yield
        return
    patched: set[Any] = set()  # modules of the language whose functions are replaced now

    @cache
    def visible(function: Callable[..., Any]) -> frozenset[Any]:
        return frozenset(
            value for value in function.__globals__.values() if value is language or value is language.core
        )

    def patch_once(function: Callable[..., Any]) -> Any:
        if patched and visible(function) <= patched:
            return interpreter._LangPatchScope()
        scope = patch(function)
        restore = scope.restore

        def restored() -> None:
            patched.clear()
            restore()

        scope.restore = restored
        patched.update(visible(function))
        return scope

    with pytest.MonkeyPatch.context() as replaced:
        replaced.setattr(interpreter, "_patch_lang", patch_once)
        yield
