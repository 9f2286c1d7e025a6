"""licences.py: the licence that a package of Debian declares for its work as a whole, in the words of SPDX.

A notice (usr/share/doc/PACKAGE/copyright) that machines can read is about the source package: the paragraph `Files: *.c`, or
else `Files: *`, says what is meant, and the licences of other parts, tools and tests among them, are told beside it. Of a
notice in prose only a sentence about "the library" is understood. NOASSERTION: it says what SPDX has no word for, or nothing of
the whole."""

import os
import re

UNKNOWN = "NOASSERTION"
PUBLIC_DOMAIN = "LicenseRef-public-domain"  # SPDX has no word of its own
NAMES = {"apache-2": "Apache-2.0", "apache-2.0": "Apache-2.0", "bsd-2-clause": "BSD-2-Clause", "bsd-3-clause": "BSD-3-Clause",
         "bsd3": "BSD-3-Clause", "bsl-1.0": "BSL-1.0", "cc0-1.0": "CC0-1.0", "curl": "curl", "expat": "MIT", "isc": "ISC",
         "mit": "MIT", "mpl-1.1": "MPL-1.1", "mpl-2.0": "MPL-2.0", "openldap-2.8": "OLDAP-2.8", "public-domain": PUBLIC_DOMAIN,
         "zlib": "Zlib"}
EXCEPTIONS = {"bison exception": "Bison-exception-2.2", "libtool exception": "Libtool-exception"}
# The weakest first: a comma before the word binds least, then "or", then "and".
JUNCTIONS = ((r",\s+and\s+", " AND "), (r",\s+or\s+", " OR "), (r"\s+or\s+", " OR "), (r"\s+and\s+", " AND "))
GNU = r"(LGPL|GPL|AGPL|GFDL)-?v?(\d)(\.\d)?(\+?)"
LIBRARY = r"library (?:itself )?is licensed (?:as|under) [^.;]{0,60}?\b" + GNU.replace("-?v?", r"\)?(?: version )?v?")


def gnu(found):
    family, major, minor, later = found.groups()
    return f"{family.upper()}-{major}{minor or '.0'}-{'or-later' if later else 'only'}"


def expression(said):
    """What stands behind `License:`, as "LGPL-3+ or GPL-2+", in the words of SPDX; None: it has none for it."""
    for pattern, word in JUNCTIONS:
        parts = re.split(pattern, said.strip(), flags=re.I)
        if len(parts) > 1:
            found = [expression(part) for part in parts]
            if None in found:
                return None
            return word.join(f"({one})" if word == " AND " and " OR " in one else one for one in found)
    name, _, exception = said.strip().partition(" with ")
    family = re.fullmatch(GNU, name, re.I)
    licence = gnu(family) if family else NAMES.get(name.lower())
    if exception and licence:
        word = EXCEPTIONS.get(exception.strip().lower())
        return f"{licence} WITH {word}" if word else None
    return licence


def paragraphs(notice):
    """(patterns of files, what stands behind `License:`) of a notice that machines can read."""
    for paragraph in re.split(r"\n[ \t]*\n", notice):
        files = re.search(r"^Files:((?:.*\n)(?:[ \t].*\n)*)", paragraph + "\n", re.M)
        said = re.search(r"^License:[ \t]*(.*)$", paragraph, re.M)
        if files and said:
            yield files.group(1).replace(",", " ").split(), said.group(1).strip()


def declared(notice):
    """(the licence that a notice declares, what is to be said of it)"""
    if "copyright-format" not in notice[:400]:
        found = re.search(LIBRARY, re.sub(r"\s+", " ", notice))
        return (gnu(found), "By a sentence about the library in the package's notice.") if found else (UNKNOWN, "")
    found = list(paragraphs(notice))
    whole = [said for wanted in ("*.c", "*") for files, said in found if wanted in files]
    licence = whole and expression(whole[0]) or UNKNOWN
    others = sorted({said for files, said in found if said and said not in whole[:1] and files != ["debian/*"]})
    comment = "Of the source package as a whole, by its notice" + (f"; parts of it: {'; '.join(others)}" if others else "") + "."
    return licence, comment


def of_notice(path):
    """That of a file; of one that is not there nothing is known."""
    try:
        with open(path, encoding="utf-8", errors="replace") as f:
            return declared(f.read())
    except OSError:
        return UNKNOWN, ""


def fields(path):
    """What a package of a bill of materials has of it."""
    licence, comment = of_notice(path)
    return {"licenseDeclared": licence, **({"licenseComments": comment} if comment else {})}


def notice_of(package, root="/"):
    return os.path.join(root, "usr/share/doc", package, "copyright")


def extracted(packages):
    """What a document has to say of licences that have no word in SPDX, if one of its packages has one."""
    if not any(PUBLIC_DOMAIN in package["licenseDeclared"] for package in packages):
        return {}
    return {"hasExtractedLicensingInfos": [{
        "licenseId": PUBLIC_DOMAIN, "name": "Public domain",
        "extractedText": "Its authors have dedicated it to the public domain; the notice of the package has their words."}]}
