#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""hooksess abi --json | bind.py rust|fortran: writes a binding, the module `hooksess`, from the description of the ABI.

It has what libhooksess itself exports. Structs with a union inside and functions with a va_list are left out.
"""
import json
import re
import sys

ABI = json.load(sys.stdin)
FUNCTIONS = [f for f in ABI["functions"] if f["library"] == "hooksess" and not any(p["type"] == "va_list" for p in f["parameters"])]
STRUCTS = {s["name"]: s for s in ABI["structs"]}
ENUMS = [e for e in ABI["enums"] if e["name"]]
CONSTANTS = [c for e in ABI["enums"] for c in e["constants"]] + ABI["macros"]


def overlaps(struct):
    fields = struct["fields"]
    return struct["kind"] == "struct" and any(a["offset"] == b["offset"] for a, b in zip(fields, fields[1:]))


def split(parameters):
    """The parameters of "int a, void (*f)(int, int)"."""
    return [part.strip() for part in re.split(r",(?![^(]*\))", parameters) if part.strip() not in ("", "void")]


def unnamed(parameter):
    """The type of "const char *name"."""
    return re.sub(r"\(\*\w*\)", "(*)", parameter) if "(*" in parameter else re.sub(r"(?<=[ *])\w+$", "", parameter).strip() or parameter


RUST = {"void": "c_void", "char": "c_char", "int": "c_int", "unsigned char": "u8", "bool": "bool", "double": "f64", "float": "f32",
        "size_t": "usize", **{f"{sign}int{bits}_t": f"{'u' if sign else 'i'}{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)}}


def rust_name(name):
    return f"r#{name}" if name in ("type", "fn", "in", "match", "ref", "where", "move", "use", "loop") else {"self": "self_"}.get(name, name)


def rust_type(kind):
    if "(*" in kind:
        returns, parameters = re.fullmatch(r"(.*?)\s*\(\*\w*\)\((.*)\)", kind).groups()
        inside = ", ".join(rust_type(unnamed(parameter)) for parameter in split(parameters))
        return f"Option<unsafe extern \"C\" fn({inside}){rust_returns(returns)}>"
    is_const, base, stars = re.fullmatch(r"(const )?(?:struct )?([\w ]+?)\s*((?:\*(?:const)?\s*)*)", kind).groups()
    found = RUST.get(base, base if base.startswith("hs_") else "c_void")
    for star in re.findall(r"\*(?:const)?", stars):
        found, is_const = f"*{'const' if is_const else 'mut'} {found}", star.endswith("const")
    return found


def rust_returns(kind):
    return "" if kind == "void" else f" -> {rust_type(kind)}"


def rust():
    yield "#![allow(non_camel_case_types, dead_code)]"
    yield "use std::os::raw::{c_char, c_int, c_void};"
    for enum in ENUMS:
        yield f"pub type {enum['name']} = c_int;"
    for item in ABI["types"]:
        text = item["declaration"]
        if re.match(r"struct \w+ \w+$", text) and item["name"] not in STRUCTS:
            yield f"#[repr(C)]\npub struct {item['name']} {{ _private: [u8; 0] }}"
        elif not text.startswith("struct"):
            yield f"pub type {item['name']} = {rust_type(text if '(*' in text else text.removesuffix(item['name']).strip())};"
    for constant in CONSTANTS:
        yield f"pub const {constant['name']}: {'c_int' if abs(constant['value']) < 2**31 else 'i64'} = {constant['value']};"
    for name, struct in STRUCTS.items():
        yield f"#[repr(C)]\n#[derive(Clone, Copy)]\npub {struct['kind']} {name} {{"
        if overlaps(struct):
            yield f"    bytes: [u64; {struct['bytes'] // 8}],"
        for field in struct["fields"] if not overlaps(struct) else []:
            kind = rust_type(field["type"])
            yield f"    pub {rust_name(field['name'])}: " + (f"[{kind}; {field['count']}]," if "count" in field else f"{kind},")
        yield "}"
        size = f"made.size = {struct['bytes']}; " if struct["grows"] else ""
        yield f"impl Default for {name} {{\n    fn default() -> Self {{ let {'mut ' if size else ''}made: Self = unsafe {{ std::mem::zeroed() }}; {size}made }}\n}}"
        yield f"const _: () = assert!(std::mem::size_of::<{name}>() == {struct['bytes']});"
    yield '#[link(name = "hooksess")]\nextern "C" {'
    for function in FUNCTIONS:
        parameters = ", ".join("..." if p["name"] == "..." else f"{rust_name(p['name'])}: {rust_type(p['type'])}" for p in function["parameters"])
        yield f"    pub fn {function['name']}({parameters}){rust_returns(function['returns'])};"
    yield "}"


FORTRAN = {"char": "character(kind=c_char)", "int": "integer(c_int)", "unsigned char": "integer(c_int8_t)", "bool": "logical(c_bool)",
           "double": "real(c_double)", "float": "real(c_float)", "size_t": "integer(c_size_t)",
           **{f"{sign}int{bits}_t": f"integer(c_int{bits}_t)" for sign in ("", "u") for bits in (8, 16, 32, 64)}}
POINTERS = {t["name"] for t in ABI["types"] if "(*" in t["declaration"]}


def fortran_type(kind):
    if "(*" in kind or kind in POINTERS:
        return "type(c_funptr)"
    if "*" in kind or kind == "hs_fetch_item":
        return "type(c_ptr)"
    return f"type({kind})" if kind in STRUCTS else FORTRAN.get(kind.removeprefix("const "), "integer(c_int)")


def fortran():
    yield "module hooksess\n  use iso_c_binding\n  implicit none"
    taken = {*STRUCTS, *(function["name"] for function in FUNCTIONS)}
    for constant in CONSTANTS:
        kind = "c_int" if abs(constant["value"]) < 2**31 else "c_int64_t"
        name = constant["name"] + "_" * (constant["name"].lower() in taken)  # Fortran ignores case: HS_STRING_
        yield f"  integer({kind}), parameter :: {name} = {constant['value']}_{kind}"
    done = set()

    def define(struct):
        for field in struct["fields"]:
            if "*" not in field["type"] and field["type"] in STRUCTS and field["type"] not in done:
                yield from define(STRUCTS[field["type"]])
        done.add(struct["name"])
        yield f"  type, bind(c) :: {struct['name']}"
        if overlaps(struct) or struct["kind"] == "union":
            yield f"    integer(c_int64_t) :: bytes({struct['bytes'] // 8}) = 0"
        for field in struct["fields"] if not overlaps(struct) and struct["kind"] == "struct" else []:
            kind, dims = fortran_type(field["type"]), f"({field['count']})" if "count" in field else ""
            first = {"type(c_p": " = c_null_ptr", "type(c_f": " = c_null_funptr", "integer(": " = 0", "real(c_d": " = 0", "logical(": " = .false.",
                     "characte": " = c_null_char"}.get(kind[:8], "")
            if field["name"] == "size" and struct["grows"]:
                first = f" = {struct['bytes']}"
            yield f"    {kind} :: {field['name']}{dims}{first}"
        yield f"  end type"

    for struct in STRUCTS.values():
        if struct["name"] not in done:
            yield from define(struct)
    yield "  interface"
    for function in FUNCTIONS:
        parameters = [p for p in function["parameters"] if p["name"] != "..."]
        names = ", ".join(p["name"] for p in parameters)
        what = "subroutine" if function["returns"] == "void" else "function"
        result = "" if what == "subroutine" else " result(result_)"
        yield f"    {what} {function['name']}({names}) bind(c){result}\n      import"
        yield from (f"      {fortran_type(p['type'])}, value :: {p['name']}" for p in parameters)
        if result:
            yield f"      {fortran_type(function['returns'])} :: result_"
        yield f"    end {what}"
    yield "  end interface\nend module"


print("\n".join({"rust": rust, "fortran": fortran}[sys.argv[1]]()))
