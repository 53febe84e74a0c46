"""How --help looks: plain text that fits into 80 columns, on a terminal and in a pipe."""

import re
from typing import Any

from typer.core import TyperCommand, TyperGroup

__all__ = ["STYLE", "Command", "Group"]

#: Of the command and its groups.  No panels: their frames take a quarter of a narrow terminal, and break the examples.
STYLE: dict[str, Any] = {
    "rich_markup_mode": None,
    "add_completion": False,
    "pretty_exceptions_enable": False,
    "context_settings": {"help_option_names": ["-h", "--help"], "max_content_width": 80},
}


class Command(TyperCommand):
    """A command whose usage line is as it is typed: what must be given first, without braces."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """The arguments, then ``[OPTIONS]``."""
        options, *arguments = super().collect_usage_pieces(ctx)
        return [*(piece.replace("{", "").replace("}", "") for piece in arguments), options]

    def get_help(self, ctx: Any) -> str:
        """Without the Python types of arguments, which some versions of typer show."""
        kind = re.compile(r"^(  [A-Z]+)( <[\w\[\]]+>)", re.M)
        return kind.sub(lambda found: found[1] + " " * len(found[2]), super().get_help(ctx))


class Group(TyperGroup):
    """A group of commands, in the order in which one meets them."""

    def list_commands(self, ctx: Any) -> list[str]:
        """As they were added."""
        return list(self.commands)

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """The command that is meant; ``search show`` is one of its own beside ``search``."""
        two = " ".join(args[:2])
        return super().resolve_command(ctx, [two, *args[2:]] if two in self.commands else args)
