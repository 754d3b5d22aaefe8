#!/usr/bin/env python3
"""Compares the interface of plugins with the stored baseline: exported functions, and layouts of the types in public headers.

usage: abi.py [--rewrite] --library FILE... --include FOLDER... --compiler G++ [--object FILE.o] BASELINE

A function or type that is gone or changed breaks compiled plugins and needs a new major part of the ABI's version (kAbiVersion);
one that is new needs a new minor part (kAbiMinor). --rewrite stores the present state. Exit code 77 (skipped) if the compiler is
not the baseline's, since others write types differently.

A line of the baseline is "type NAME SIZE HASH" or "function NAME(PARAMETERS)". The hash covers bases, members with offsets and
types, virtual functions in their order, and enumerators, as the compiler's debug information has them.
"""
import argparse
import hashlib
import os
import re
import subprocess
import sys
import tempfile

SKIPPED = 77
DIE = re.compile(r" <(\d+)><([0-9a-f]+)>: Abbrev Number: \d+ \(DW_TAG_(\w+)\)")
ATTRIBUTE = re.compile(r"\s+<[0-9a-f]+>\s+DW_AT_(\w+)\s*: ?(.*)")
KEPT = {"name", "type", "byte_size", "data_member_location", "vtable_elem_location", "const_value", "upper_bound",
        "declaration", "linkage_name", "bit_size", "data_bit_offset"}
TYPES = {"class_type", "structure_type", "union_type", "enumeration_type"}
WRAPPED = {"pointer_type": "*", "reference_type": "&", "rvalue_reference_type": "&&", "const_type": " const",
           "volatile_type": " volatile"}


def run(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


class Entry:
    """An entry of the debug information, with its children."""

    def __init__(self, tag, parent):
        self.tag, self.parent, self.children, self.at = tag, parent, [], {}

    def name(self):
        own = self.at.get("name", "")
        above = self.parent.name() if self.parent is not None and self.parent.tag in TYPES | {"namespace"} else ""
        return f"{above}::{own}" if above else own


def entries(dump):
    """Yields all entries; `at` of references is resolved by type_name()."""
    by_offset, open_ones = {}, []
    for line in dump:
        if found := DIE.match(line):
            depth = int(found[1])
            del open_ones[depth:]
            entry = Entry(found[3], open_ones[-1] if open_ones else None)
            if open_ones:
                open_ones[-1].children.append(entry)
            open_ones.append(entry)
            by_offset[found[2]] = entry
        elif open_ones and (found := ATTRIBUTE.match(line)) and found[1] in KEPT:
            value = found[2].strip()
            if value.startswith("(indirect"):
                value = value.split("): ", 1)[1]
            open_ones[-1].at[found[1]] = value
    return by_offset


def type_name(by_offset, entry):
    of = entry.at.get("type")
    if of is None:
        return "void"
    target = by_offset[of.strip("<>").removeprefix("0x")]
    if target.tag in WRAPPED:
        return type_name(by_offset, target) + WRAPPED[target.tag]
    if target.tag == "array_type":
        sizes = "".join(f"[{child.at.get('upper_bound', '')}]" for child in target.children)
        return type_name(by_offset, target) + sizes
    if target.tag == "subroutine_type":
        parameters = ", ".join(type_name(by_offset, child) for child in target.children)
        return f"{type_name(by_offset, target)} ({parameters})"
    return target.name()


def describe(by_offset, entry):
    """All that a compiled plugin relies on, as text."""
    parts = []
    for child in entry.children:
        if child.tag == "enumerator":
            parts.append(f"{child.at['name']} = {child.at['const_value']}")
        elif child.tag == "inheritance" or (child.tag == "member" and "data_member_location" in child.at):
            parts.append(f"{child.at['data_member_location']} {child.at.get('name', 'base')} {child.at.get('bit_size', '')} "
                         f"{child.at.get('data_bit_offset', '')} {type_name(by_offset, child)}")
        elif child.tag == "member":  # of a union, or static
            parts.append(f"{child.at.get('name', '')} {type_name(by_offset, child)}")
        elif child.tag == "subprogram" and "vtable_elem_location" in child.at:
            parts.append(f"virtual {child.at['vtable_elem_location']} {child.at.get('linkage_name', child.at.get('name'))}")
    return "\n".join(parts)


def layouts(by_offset):
    lines = set()
    for entry in by_offset.values():
        if entry.tag not in TYPES or "byte_size" not in entry.at or "name" not in entry.at or "declaration" in entry.at:
            continue
        above, inside = entry.parent, True
        while above is not None and above.tag != "compile_unit":
            inside = inside and above.tag in TYPES | {"namespace"} and "name" in above.at
            above = above.parent
        name = entry.name()
        if not inside or not name.startswith(("millrace::", "millrace_")) or "<" in name:  # locals; templates are compiled into plugins
            continue
        text = hashlib.sha256(describe(by_offset, entry).encode()).hexdigest()[:8]
        lines.add(f"type {name.removeprefix('millrace::')} {int(entry.at['byte_size'], 0)} {text}")
    return lines


def functions(libraries, words):
    """Functions with a symbol of their own whose class, or name, the public headers have."""
    lines = set()
    for library in libraries:
        for symbol in run("nm", "-DC", "--defined-only", library).splitlines():
            found = re.match(r"[0-9a-f]+ ([TDBR]) (.*)", symbol)
            if found is None:
                continue
            if found[2].startswith("millrace::"):
                name = found[2].removeprefix("millrace::")
                first = re.match(r"\w+", name)
                if first is None or first[0] not in words:
                    continue
                lines.add("function " + shorten(name))
            elif found[2].startswith("millrace_"):  # C
                lines.add("function " + found[2])
    return lines


def shorten(name):
    name = name.replace("std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> >", "string")
    name = name.replace("std::basic_string_view<char, std::char_traits<char> >", "string_view")
    name = name.replace("std::filesystem::__cxx11::path", "path").replace("millrace::", "").replace("[abi:cxx11]", "")
    name = re.sub(r", std::(allocator|less)<(?:[^<>]|<[^<>]*>)*> ?(?=>)", "", name)
    return name.replace(" >", ">")


def present_state(arguments, folder):
    headers, words = [], set()
    for include in arguments.include:
        for place, _, names in os.walk(include):
            for name in sorted(names):
                path = os.path.join(place, name)
                if name.endswith(".h"):
                    text = open(path, encoding="utf-8").read()
                    words |= set(re.findall(r"\b(?:class|struct)\s+(\w+)", text)) | set(re.findall(r"\b(\w+)\s*\(", text))
                    headers.append(os.path.relpath(path, include))
    source = os.path.join(folder, "headers.cpp")
    with open(source, "w", encoding="utf-8") as file:
        file.writelines(f'#include "{header}"\n' for header in sorted(headers))
    made = os.path.join(folder, "headers.o")
    run(arguments.compiler, "-std=c++20", *(f"-I{include}" for include in arguments.include), "-O0", "-gdwarf-4", "-fPIC",
        "-fno-eliminate-unused-debug-types", "-femit-class-debug-always",  # also classes whose virtual functions are elsewhere
        "-c", source, "-o", made)
    with subprocess.Popen(["readelf", "--debug-dump=info", made], stdout=subprocess.PIPE, text=True) as dump:
        types = layouts(entries(dump.stdout))
    return types | functions(arguments.library, words)


def abi_version(includes):
    for include in includes:
        header = os.path.join(include, "millrace/detail/plugin_descriptor.h")
        if os.path.exists(header):
            text = open(header, encoding="utf-8").read()
            parts = [re.search(rf"{name} = (\d+)", text) for name in ("kAbiVersion", "kAbiMinor")]
            return tuple(int(part[1]) if part else 0 for part in parts)
    sys.exit("abi.py: plugin_descriptor.h is in none of the include folders")


def required_version(before, gone, new):
    """The least version that may follow `before` with these differences."""
    major, minor = before
    return (major + 1, 0) if gone else (major, minor + 1) if new else before


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--rewrite", action="store_true")
    parser.add_argument("--library", nargs="+", required=True)
    parser.add_argument("--include", nargs="+", required=True)
    parser.add_argument("--compiler", required=True)
    parser.add_argument("baseline")
    arguments = parser.parse_args()
    compiler = "g++ " + run(arguments.compiler, "-dumpversion").split(".")[0].strip()
    version = abi_version(arguments.include)

    head, lines = None, set()
    if os.path.exists(arguments.baseline):
        with open(arguments.baseline, encoding="utf-8") as file:
            head = file.readline().strip()
            lines = set(file.read().splitlines())
    if not arguments.rewrite:
        if head is None:
            sys.exit(f"abi.py: {arguments.baseline} is missing: --rewrite makes it")
        if not head.endswith(compiler):
            print(f"the baseline is of another compiler: '{head}', and this is {compiler}")
            return SKIPPED
    with tempfile.TemporaryDirectory() as folder:
        now = present_state(arguments, folder)
    if arguments.rewrite:
        with open(arguments.baseline, "w", encoding="utf-8") as file:
            file.write(f"# ABI {version[0]}.{version[1]}, {compiler}\n" + "".join(line + "\n" for line in sorted(now)))
        print(f"{arguments.baseline}: {len(now)} lines")
        return 0

    before = tuple(int(part) for part in re.search(r"ABI (\d+)\.(\d+)", head).groups())
    gone, new = sorted(lines - now), sorted(now - lines)
    print("\n".join(["- " + line for line in gone] + ["+ " + line for line in new]))
    required = required_version(before, gone, new)
    if version < required:
        print(f"\nThe ABI is {version[0]}.{version[1]}, and with these differences must be at least {required[0]}.{required[1]}"
              " (kAbiVersion and kAbiMinor in plugin_descriptor.h).")
    if gone or new or version != before:
        print("\nThen store the new baseline: cmake --build BUILD --target abi_baseline")
        return 1
    print(f"ABI {version[0]}.{version[1]}: {len(now)} functions and types as stored")
    return 0


if __name__ == "__main__":
    sys.exit(main())
