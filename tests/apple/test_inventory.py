"""The doubles against inventory.json, by the Objective-C runtime: nothing more than Apple has.

What is declared and has no behaviour ends the program when it is used; which selectors these are is
said by without_behaviour.txt, so that a lost method is noticed.
"""

import ctypes
import re
import subprocess
from pathlib import Path

import pytest
from analyze import findings
from apple_build import COMPILER, HERE, compile_options
from declarations import load, properties
from mps_session import broken
from objective_c import Runtime

INVENTORY = load()
CLASSES = INVENTORY["classes"]
SOURCES = "".join(path.read_text() for path in sorted((HERE / "doubles").glob("*.mm")))
IMPLEMENTED = sorted(
    set(re.findall(r"^@implementation (\w+)$", SOURCES, re.MULTILINE)) & set(CLASSES)
)


def selector_of(declaration: str) -> str:
    """ "- (void)encode:(int)a to:(int)b" -> "-encode:to:"."""
    kind, _, rest = declaration.partition(" ")
    depth, text = 0, ""
    for character in rest:
        depth += (character == "(") - (character == ")")
        if depth == 0 and character != ")":
            text += character
    parts = re.findall(r"(\w+):", text)
    return kind + ("".join(f"{part}:" for part in parts) if parts else text.strip())


def declared_by_hand() -> dict[str, set[str]]:
    """Selectors of the methods that by_hand.h adds to classes."""
    text = (HERE / "include/MetalPerformanceShaders/by_hand.h").read_text()
    return {
        name: {
            selector_of(" ".join(method.split()))
            for method in re.findall(r"^[-+] .*?;", body, re.MULTILINE | re.DOTALL)
        }
        for name, body in re.findall(r"^@interface (\w+) \(ByHand\)(.*?)^@end", text, re.M | re.S)
    }


BY_HAND = declared_by_hand()


def selectors(name: str) -> set[str]:
    entry = CLASSES.get(name) or INVENTORY["protocols"].get(name, {})
    found = {selector_of(method) for method in entry.get("methods", [])} | BY_HAND.get(name, set())
    for attributes, _, property_name in properties(entry):
        kind = "+" if "class" in attributes else "-"
        found.add(kind + property_name)
        if "readwrite" in attributes:
            found.add(f"{kind}set{property_name[0].upper()}{property_name[1:]}:")
    for adopted in entry.get("protocols", []):
        found |= selectors(adopted)
    return found


def implements(runtime: Runtime, name: str, selector: str) -> bool:
    doubles = runtime.doubles
    found = doubles.objc_lookUpClass(name.encode())
    if selector[0] == "+":
        found = ctypes.c_void_p.from_address(found).value
    return doubles.class_getInstanceMethod(found, doubles.sel_registerName(selector[1:].encode()))


def own_methods(runtime: Runtime, name: str) -> set[str]:
    """What the class itself implements, its metaclass with it."""
    doubles, found = runtime.doubles, set()
    doubles.class_copyMethodList.restype = ctypes.POINTER(ctypes.c_void_p)
    doubles.class_copyMethodList.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
    address = doubles.objc_lookUpClass(name.encode())
    for kind, where in (("-", address), ("+", ctypes.c_void_p.from_address(address).value)):
        count = ctypes.c_uint()
        methods = doubles.class_copyMethodList(where, ctypes.byref(count))
        for index in range(count.value):
            found.add(kind + doubles.sel_getName(doubles.method_getName(methods[index])).decode())
    return found


@pytest.mark.parametrize("name", sorted(CLASSES))
def test_superclass(runtime: Runtime, name: str) -> None:
    parent = runtime.doubles.class_getSuperclass(runtime.doubles.objc_lookUpClass(name.encode()))
    assert runtime.doubles.class_getName(parent).decode() == CLASSES[name]["superclass"]


@pytest.mark.parametrize("name", IMPLEMENTED)
def test_a_double_has_no_method_that_the_inventory_lacks(runtime: Runtime, name: str) -> None:
    known, parent = set(), name
    while parent in CLASSES:
        known |= selectors(parent)
        parent = CLASSES[parent]["superclass"]
    # Of the doubles themselves, of the compiler, and of NSObject.
    extra = {
        selector
        for selector in own_methods(runtime, name) - known
        if not re.match(r"[-+](apple_|\.cxx_|dealloc$|copyWithZone:$)", selector)
    }
    assert extra == set()


def test_selectors_without_behaviour(runtime: Runtime) -> None:
    missing = {
        f"{name} {selector}"
        for name in IMPLEMENTED
        for selector in selectors(name)
        if not implements(runtime, name, selector)
    }
    lines = (HERE / "without_behaviour.txt").read_text().splitlines()
    listed = {line for line in lines if line and not line.startswith("#")}
    assert missing == listed


def test_classes_without_behaviour_cannot_be_made(runtime: Runtime) -> None:
    names = sorted(set(CLASSES) - set(IMPLEMENTED))
    assert names

    for name in names:
        sentence = broken(runtime, lambda s, name=name: getattr(s.runtime, name).send("alloc"))
        assert f"{name} has no behaviour on this double" in sentence


# --- what must not compile -----------------------------------------------------------------------

SNIPPETS = {
    "unavailable": (
        "[[MPSCNNConvolution alloc] initWithDevice:nil];",
        "'initWithDevice:' is unavailable",
    ),
    "unavailable form": (
        "MPSCNNBatchNormalizationStatistics* k = nil;"
        "[k encodeToCommandBuffer:nil sourceImage:nil destinationImage:nil];",
        "is unavailable",
    ),
    "unknown": (
        "MPSImage* image = nil; [image frobnicate];",
        "not found",
    ),
    "another class's": (
        "MPSCNNConvolution* k = nil; [k setGradientOption:MPSCNNConvolutionGradientOptionAll];",
        "may not respond",
    ),
    "another type": ("MPSCNNSoftMax* k = nil; [k setOffset:3];", "no viable conversion"),
    "read-only": ("MPSImage* image = nil; image.width = 3;", "readonly"),
    "not a data source": (
        "[[MPSCNNConvolution alloc] initWithDevice:nil weights:[NSString string]];",
        "cannot initialize a parameter",
    ),
}


def compiled(folder: Path, body: str, doubles: Path) -> subprocess.CompletedProcess[str]:
    source = folder / "snippet.mm"
    source.write_text(
        "#include <MetalPerformanceShaders/MetalPerformanceShaders.h>\n"
        f"void snippet() {{ {body} }}\n"
    )
    command = [COMPILER, "-fsyntax-only", "-Werror", *compile_options(doubles), source]
    return subprocess.run(command, capture_output=True, text=True)


@pytest.mark.parametrize("name", SNIPPETS)
def test_snippets_that_must_not_compile(tmp_path: Path, doubles: Path, name: str) -> None:
    body, error = SNIPPETS[name]
    done = compiled(tmp_path, body, doubles)
    assert done.returncode != 0
    assert re.search(error, done.stderr), done.stderr


def test_a_snippet_that_compiles(tmp_path: Path, doubles: Path) -> None:
    done = compiled(tmp_path, "MPSCNNSoftMax* k = nil; [k setOffset:MPSOffset{1, 2, 0}];", doubles)
    assert done.returncode == 0, done.stderr


def test_the_analyzer_finds_a_leak(tmp_path: Path, doubles: Path) -> None:
    source = tmp_path / "leak.mm"
    source.write_text(
        "#include <Foundation/Foundation.h>\n"
        "unsigned long leak() { return [[[NSArray alloc] init] count]; }\n"
    )
    assert "leak" in findings(source, doubles)
