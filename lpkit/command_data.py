"""The command ``lpkit data``: fetch what may not be shipped with lpkit."""

import json
import sys

import click

__all__ = ["data"]


@click.command()
@click.argument("name", metavar="cifar10")
@click.option("--path", metavar="DIR", help="Folder to put it into.  [default: $LPKIT_DATA, or ~/.cache/lpkit]")
@click.option("--json", "as_json", is_flag=True, help="Print JSON for machines instead of text.")
def data(name, path, as_json):
    """Download a data set that may not come with lpkit, checked against its checksum; nothing if it is there."""
    from lpkit.checks import choice
    from lpkit.cifar10 import download_cifar10

    choice(name, "data set", ("cifar10",))
    folder = download_cifar10(path, progress=sys.stderr.isatty() and not as_json)
    click.echo(json.dumps({"name": name, "path": str(folder)}) if as_json else f"{name}: {folder}")
