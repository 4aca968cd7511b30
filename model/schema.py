"""Converts plain values (from YAML or JSON) to typed dataclasses, and refuses unknown keys.

The composed configuration and a bundle's `config.json` both use it, so that both refuse a misspelt key with the same
message, and no stored file can name a callable.
"""

import dataclasses
import types
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from dragoman.model.errors import UserError, no_such_key, unknown
from dragoman.model.ranges import OutOfRangeError, check_range, range_in

T = TypeVar("T")

EXACT = (int, str)  # types that need no conversion
NO_SETTING = {"setting": False}  # metadata of a field that the program fills in itself


def build(schema: type[T], values: object, where: str) -> T:
    """Returns an instance of the dataclass `schema` from a mapping; missing keys keep the schema's defaults.

    `where` is the dotted key of the mapping itself and starts every message.
    """
    if not isinstance(values, Mapping):
        raise UserError(f"{where}: expected a section of keys, got {values!r}")
    hints = get_type_hints(schema, include_extras=True)
    fields = {field.name: field for field in settings_of(schema)}
    for key in values:
        if key not in fields:
            raise no_such_key(where, key, fields)
    arguments = {key: convert(hints[key], value, f"{where}.{key}") for key, value in values.items()}
    for name, field in fields.items():
        needed = field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
        if needed and name not in arguments:
            raise UserError(f"{where}.{name}: missing; it has no default")
    return schema(**arguments)


def settings_of(schema: Any) -> list[dataclasses.Field[Any]]:
    """Returns the fields of a dataclass that are settings, not what the program fills in itself."""
    return [field for field in dataclasses.fields(schema) if field.metadata.get("setting", True)]


def convert(hint: Any, value: Any, where: str) -> Any:
    """Returns `value` converted to the annotation `hint` of the key `where`."""
    origin = get_origin(hint)
    if origin is Annotated:
        converted = convert(get_args(hint)[0], value, where)
        if (bounds := range_in(hint)) is not None:
            check_range(bounds, converted, where)
        return converted
    if hint is Any:
        return value
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        return build(hint, value, where)
    if origin in (Union, types.UnionType):
        return _convert_union(get_args(hint), value, where)
    if origin is Literal:
        choices = get_args(hint)
        if value not in choices:
            raise unknown(where, value, choices)
        return value
    if origin is list:
        if not isinstance(value, list | tuple):
            raise UserError(f"{where}: expected a list, such as [{value}], got {value!r}")
        if get_args(hint)[0] in EXACT and all(type(item) is get_args(hint)[0] for item in value):
            return list(value)  # nothing to convert: a manifest may hold millions of them
        return [convert(get_args(hint)[0], item, f"{where}[{i}]") for i, item in enumerate(value)]
    if origin is dict:
        if not isinstance(value, Mapping):
            raise UserError(f"{where}: expected a section of keys, got {value!r}")
        return {str(key): convert(get_args(hint)[1], item, f"{where}.{key}") for key, item in value.items()}
    return _convert_scalar(hint, value, where)


def _convert_union(members: tuple[Any, ...], value: Any, where: str) -> Any:
    if value is None and type(None) in members:
        return None
    problems = []
    for member in members:
        if member is type(None):
            continue
        try:
            return convert(member, value, where)
        except OutOfRangeError:
            raise  # the type is right, the value is not
        except UserError as problem:
            problems.append(problem)
    raise problems[0] if len(problems) == 1 else UserError(f"{where}: {value!r} fits none of {_names(members)}")


def _convert_scalar(hint: Any, value: Any, where: str) -> Any:
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if hint is float and isinstance(value, str):  # YAML 1.1 reads 1e-3 as text
        try:
            return float(value)
        except ValueError:
            pass
    if hint is str and isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    # bool is an int in Python, but `steps: true` is a mistake
    if isinstance(value, hint) and not (hint is int and isinstance(value, bool)):
        return value
    raise UserError(f"{where}: expected {_names((hint,))}, got {value!r}")


def _names(members: tuple[Any, ...]) -> str:
    words = {int: "a whole number", float: "a number", str: "text", bool: "true or false", type(None): "null"}
    plain = [get_args(member)[0] if get_origin(member) is Annotated else member for member in members]
    return " or ".join(words.get(member, _literal(member)) for member in plain)


def _literal(member: Any) -> str:
    return " or ".join(map(repr, get_args(member))) if get_origin(member) is Literal else str(member)


def flat(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yields (dotted key, value) of all that is no section of a nested configuration; an empty one is a value."""
    for name, value in values.items():
        if isinstance(value, Mapping) and value:
            yield from flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value
