"""Layout of ``--help``: plain text in 80 columns, commands under headings; commands are imported when needed."""

import re
from collections.abc import Mapping
from importlib import import_module
from typing import Any, ClassVar

import typer
from typer.core import TyperCommand, TyperGroup

__all__ = ["STYLE", "Command", "Group", "LazyGroup"]

#: Settings of the application and its groups.  No panels: their borders take a quarter of a narrow terminal.
STYLE: dict[str, Any] = {
    "rich_markup_mode": None,
    "add_completion": False,
    "pretty_exceptions_enable": False,
    "context_settings": {"help_option_names": ["-h", "--help"], "max_content_width": 80},
}


class Command(TyperCommand):
    """A command whose usage line has arguments before options, as users type them."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Return the arguments, then ``[OPTIONS]``."""
        options, *arguments = super().collect_usage_pieces(ctx)
        return [*(piece.replace("{", "").replace("}", "") for piece in arguments), options]

    def get_help(self, ctx: Any) -> str:
        """Return the help text without the Python types of arguments, which some versions of Typer show."""
        python_type = re.compile(r"^(  [A-Z]+)( <[\w\[\]]+>)", re.M)
        return python_type.sub(lambda found: found[1] + " " * len(found[2]), super().get_help(ctx))


class Group(TyperGroup):
    """A group that lists its commands in the order of their definition."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of the commands, in order."""
        return list(self.commands)


class LazyGroup(Group):
    """A group whose commands are listed under headings and imported one by one, when they are needed.

    ``squad fit --help`` imports one command, and no command imports torch or numpy before it runs.

    Attributes:
        sections: Heading -> name of a command -> ``module:function``, or ``module:app`` for a Typer application.
    """

    sections: ClassVar[Mapping[str, Mapping[str, str]]] = {}

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of the commands, in order."""
        return [name for commands in self.sections.values() for name in commands]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return the command of that name, or None; imports its module.

        Args:
            ctx: Click's context.
            cmd_name: Name of the command, such as "search show".

        Returns:
            The command, or None if there is none of that name.
        """
        if cmd_name not in self.commands:
            targets = {name: target for commands in self.sections.values() for name, target in commands.items()}
            if cmd_name not in targets:
                return None
            module, name = targets[cmd_name].split(":")
            found = getattr(import_module(module), name)
            if not isinstance(found, typer.Typer):
                application = typer.Typer(**STYLE)
                application.command(cls=Command)(found)
                found = application
            command = typer.main.get_command(found)
            command.name = cmd_name
            self.commands[cmd_name] = command
        return self.commands[cmd_name]

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """Find the command; ``search show`` is a command of two words next to ``search``.

        Args:
            ctx: Click's context.
            args: Words of the command line that are not parsed yet.

        Returns:
            Name of the command, the command, and the remaining words.
        """
        known = self.list_commands(ctx)
        two_words = " ".join(args[:2])
        if args[0] not in known:  # Typer suggests similar names, and knows only commands that are imported
            for name in known:
                self.get_command(ctx, name)
        return super().resolve_command(ctx, [two_words, *args[2:]] if two_words in known else args)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the commands with a one-line summary each, under the headings.

        Args:
            ctx: Click's context.
            formatter: Click's formatter, to which the text is written.
        """
        width = max(map(len, self.list_commands(ctx)))
        for heading, names in self.sections.items():
            rows = []
            for name in names:
                text = self.get_command(ctx, name).get_short_help_str(formatter.width - width - 6)
                rows.append((name.ljust(width), text))
            with formatter.section(heading):
                formatter.write_dl(rows)
