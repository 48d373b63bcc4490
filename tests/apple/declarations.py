"""Writes the headers of Metal Performance Shaders from inventory.json, when CMake configures.

`declarations.py OUTPUT DOUBLES…` writes into the folder OUTPUT

* `include/MetalPerformanceShaders/MetalPerformanceShaders.h`: enums, protocols and classes;
* `doubles/members.h`: for each class NAME the macros PROPERTIES(NAME), its accessors,
  RELEASES(NAME), what its dealloc gives back, and MEMBERS(NAME), both with the dealloc;
* `doubles/without_behaviour.mm`: the classes that no source among DOUBLES implements, which fail
  when one is created.

GCC's Objective-C runtime keeps all instance variables in the interface: each property NAME has one
called _NAME, and a class for which a header among DOUBLES has `struct CLASSInside` has a shared
pointer inside_CLASS to it.
"""

import json
import re
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
OPTIONS = re.compile(r"(Options?|Flags|Method|Strategy)$")

Entry = dict[str, list[str]]
Inventory = dict[str, dict]


def load() -> Inventory:
    return json.loads((HERE / "inventory.json").read_text())


def property_parts(text: str) -> tuple[list[str], str, str]:
    """Attributes, type and name of "(readonly) NSUInteger width"."""
    match = re.fullmatch(r"\((.*?)\) (.*) (\w+)", text)
    assert match is not None, text
    return match[1].split(", "), match[2], match[3]


def is_object(kind: str, classes: dict[str, Entry]) -> bool:
    if kind.startswith("id<"):
        return True
    named = re.fullmatch(r"(?:const )?(\w+)(<.*>)?\*", kind)
    return named is not None and (
        named[1] in classes or named[1] in ("NSString", "NSArray", "NSData")
    )


def properties(entry: Entry) -> list[tuple[list[str], str, str]]:
    return [property_parts(text) for text in entry.get("properties", [])]


def declared_property(text: str, classes: dict[str, Entry]) -> str:
    attributes, kind, name = property_parts(text)
    if "readwrite" in attributes and is_object(kind, classes) and "copy" not in attributes:
        attributes = [*attributes, "retain"]
    return f"@property({', '.join([*attributes, 'nonatomic'])}) {kind} {name};"


def enum(name: str, entry: dict) -> list[str]:
    macro = "NS_OPTIONS" if OPTIONS.search(name) else "NS_ENUM"
    lines = [f"typedef {macro}({entry['type']}, {name}) {{"]
    return [*lines, *(f"  {case} = {value}u," for case, value in entry["values"].items()), "};"]


def protocol(name: str, entry: Entry, classes: dict[str, Entry]) -> list[str]:
    parents = ", ".join(entry.get("protocols", ["NSObject"]))
    lines: dict[bool, list[str]] = {True: [], False: []}
    required = entry.get("required")
    for method in entry.get("methods", []):
        selector = re.split(r"[:\s]", method.split(")", 1)[1], maxsplit=1)[0]
        lines[required is None or selector in required].append(f"{method};")
    for text in entry.get("properties", []):
        attributes, _, property_name = property_parts(text)
        if "class" not in attributes:
            present = required is None or property_name in required
            lines[present].append(declared_property(text, classes))
    return [f"@protocol {name} <{parents}>", *lines[True], "@optional", *lines[False], "@end"]


def inherited(name: str, classes: dict[str, Entry]) -> set[str]:
    """The properties of all ancestors."""
    found: set[str] = set()
    parent = str(classes[name]["superclass"])
    while parent in classes:
        found |= {property_name for _, _, property_name in properties(classes[parent])}
        parent = str(classes[parent]["superclass"])
    return found


def own_properties(name: str, inventory: Inventory) -> list[str]:
    """Those of the class and of protocols that it adopts; what a superclass has is left to it."""
    entry, protocols = inventory["classes"][name], inventory["protocols"]
    texts = list(entry.get("properties", []))
    for adopted in entry.get("protocols", []):
        texts += protocols.get(adopted, {}).get("properties", [])
    above = inherited(name, inventory["classes"])
    return [
        text
        for text in texts
        if "class" not in property_parts(text)[0] and property_parts(text)[2] not in above
    ]


def interface(name: str, inventory: Inventory, insides: set[str]) -> list[str]:
    classes = inventory["classes"]
    entry, own = classes[name], own_properties(name, inventory)
    adopted = f" <{', '.join(entry['protocols'])}>" if "protocols" in entry else ""
    lines = [f"@interface {name} : {entry['superclass']}{adopted} {{", " @public"]
    lines += [f"  {kind} _{variable};" for _, kind, variable in map(property_parts, own)]
    if name in insides:
        lines.append(f"  std::shared_ptr<{name}Inside> inside_{name};")
    lines.append("}")
    lines += [declared_property(text, classes) for text in own]
    lines += [f"{method};" for method in entry.get("methods", [])]
    lines += [f"{method} NS_UNAVAILABLE;" for method in entry.get("unavailable", [])]
    return [*lines, "@end"]


def in_order(classes: dict[str, Entry]) -> list[str]:
    """Superclasses first."""
    order: list[str] = []

    def add(name: str) -> None:
        if name in classes and name not in order:
            add(str(classes[name]["superclass"]))
            order.append(name)

    for name in classes:
        add(name)
    return order


def header(inventory: Inventory, insides: set[str]) -> str:
    classes = inventory["classes"]
    lines = [
        "// Generated by declarations.py from inventory.json.",
        "#pragma once",
        "#include <memory>",
    ]
    lines += ["#include <MetalPerformanceShaders/structures.h>", ""]
    lines += [f"@class {', '.join(classes)};"]
    lines += [f"struct {name}Inside;" for name in sorted(insides)]
    for name, entry in inventory["enums"].items():
        lines += ["", *enum(name, entry)]
    lines += ["", *(f"@protocol {name};" for name in inventory["protocols"])]
    for name, entry in inventory["protocols"].items():
        lines += ["", *protocol(name, entry, classes)]
    for name in in_order(classes):
        lines += ["", *interface(name, inventory, insides)]
    lines += ["", "#include <MetalPerformanceShaders/by_hand.h>"]
    lines += ["#include <MetalPerformanceShaders/image_matrix.h>", ""]
    return "\n".join(lines)


def members(inventory: Inventory) -> str:
    classes = inventory["classes"]
    lines = ["// Generated by declarations.py from inventory.json.", "#pragma once", ""]
    lines += [
        f"#define {kind}(name) {kind}_##name" for kind in ("PROPERTIES", "RELEASES", "MEMBERS")
    ]
    for name in classes:
        own = [property_parts(text) for text in own_properties(name, inventory)]
        made = " ".join(f"@synthesize {variable} = _{variable};" for _, _, variable in own)
        given = " ".join(
            f"[_{variable} release];" for _, kind, variable in own if is_object(kind, classes)
        )
        dealloc = f"- (void)dealloc {{ RELEASES_{name} [super dealloc]; }}"
        lines += [f"#define PROPERTIES_{name} {made}", f"#define RELEASES_{name} {given}"]
        lines += [f"#define MEMBERS_{name} PROPERTIES_{name} {dealloc}"]
    return "\n".join([*lines, ""])


def without_behaviour(classes: dict[str, Entry], implemented: set[str]) -> str:
    lines = ["// Generated by declarations.py: the classes that no double implements."]
    lines += ['#include "doubles.h"', '#include "members.h"']
    for name in in_order(classes):
        if name in implemented:
            continue
        sentence = f"{name} has no behaviour on this double"
        lines += ["", f"@implementation {name}", f"MEMBERS({name})"]
        lines += ["+ (instancetype)allocWithZone:(NSZone*)zone {", "  (void)zone;"]
        lines += [f'  apple::fail("{sentence}");', "}", "@end"]
    return "\n".join([*lines, ""])


def write(path: Path, text: str) -> None:
    """Only if it differs, so that nothing is compiled again for nothing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists() or path.read_text() != text:
        path.write_text(text)


def main(output: Path, sources: list[Path]) -> None:
    inventory = load()
    classes = inventory["classes"]
    text = "\n".join(source.read_text() for source in sources)
    insides = set(re.findall(r"^struct (\w+)Inside\b", text, re.MULTILINE))
    implemented = set(re.findall(r"^@implementation (\w+)", text, re.MULTILINE))
    write(
        output / "include/MetalPerformanceShaders/MetalPerformanceShaders.h",
        header(inventory, insides),
    )
    write(output / "doubles/members.h", members(inventory))
    write(output / "doubles/without_behaviour.mm", without_behaviour(classes, implemented))


if __name__ == "__main__":
    main(Path(sys.argv[1]), [Path(name) for name in sys.argv[2:]])
