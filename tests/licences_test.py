#!/usr/bin/env python3
"""licences_test.py: which licence a bill of materials names for a package, from the package's own notice (tools/licences.py).
Ends with `N passed, N failed, N skipped`."""

import os
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "tools"))

import licences  # noqa: E402

HEAD = "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\nUpstream-Name: a\n\n"
OTHERS = "Files: m4/*\nCopyright: b\nLicense: GPL-3+\n text\n\n"


def notice(said):
    return (f"{HEAD}{OTHERS}Files: *\nCopyright: a\nLicense: {said}\n text\n .\n more\n\n"
            "Files: debian/*\nLicense: Apache-2\n\nFiles: debian/x tests/*\nLicense: GPL-2+\n")


class Declared(unittest.TestCase):
    def test_the_licence_of_the_whole_is_named_in_the_words_of_spdx(self):
        for said, named in {
                "Expat": "MIT", "curl": "curl", "BSD-3-clause": "BSD-3-Clause", "Zlib": "Zlib", "Apache-2": "Apache-2.0",
                "LGPL-2.1+": "LGPL-2.1-or-later", "LGPLv2.1+": "LGPL-2.1-or-later", "GPL-2": "GPL-2.0-only",
                "GPL-2.0+": "GPL-2.0-or-later",
                "BSD-3-clause or GPL-2": "BSD-3-Clause OR GPL-2.0-only",
                "LGPL-3+ or GPL-2+": "LGPL-3.0-or-later OR GPL-2.0-or-later",
                "LGPL-2+ and LGPL-2.1+ and CC0-1.0": "LGPL-2.0-or-later AND LGPL-2.1-or-later AND CC0-1.0",
                "Expat or ISC and Zlib": "MIT OR ISC AND Zlib",
                "GPL-2+ or ISC, and Expat and Zlib": "(GPL-2.0-or-later OR ISC) AND MIT AND Zlib",
                "GPL-2+ with Libtool exception": "GPL-2.0-or-later WITH Libtool-exception",
                "public-domain": "LicenseRef-public-domain"}.items():
            self.assertEqual(licences.declared(notice(said))[0], named, said)

    def test_what_spdx_has_no_word_for_is_not_guessed(self):
        for said in ("permissive", "GPL", "GPL-2+ with a promise", "Expat and Tcl-BSDish", "Expat or"):
            self.assertEqual(licences.declared(notice(said))[0], "NOASSERTION", said)
        self.assertEqual(licences.declared(HEAD + OTHERS)[0], "NOASSERTION", "no paragraph speaks of the whole")
        self.assertEqual(licences.declared("This package was made by somebody.\nLicense: GPL-2\n"), ("NOASSERTION", ""), "prose")

    def test_a_sentence_about_the_library_is_understood(self):
        for said, named in {
                "The library itself is licensed as LGPLv2.1+, the\ntools are GPLv3+.": "LGPL-2.1-or-later",
                "License: The main library is licensed under GNU Lesser\nGeneral Public License (LGPL) version 2.1+, the\n"
                "utilities are GPLv3+": "LGPL-2.1-or-later"}.items():
            self.assertEqual(licences.declared("It was packaged by somebody.\n\n" + said)[0], named)

    def test_licences_of_parts_are_told_beside_it(self):
        self.assertEqual(licences.declared(notice("Expat"))[1],
                         "Of the source package as a whole, by its notice; parts of it: GPL-2+; GPL-3+.")
        sources = notice("GPL-3+") + "\nFiles: *.c\n *.h\nCopyright: a\nLicense: LGPL-3+ or GPL-2+\n"
        self.assertEqual(licences.declared(sources),
                         ("LGPL-3.0-or-later OR GPL-2.0-or-later",
                          "Of the source package as a whole, by its notice; parts of it: GPL-2+; GPL-3+."))

    def test_a_package_says_it_where_packages_do(self):
        with tempfile.TemporaryDirectory() as root:
            os.makedirs(os.path.join(root, "usr/share/doc/libone"))
            with open(licences.notice_of("libone", root), "w") as f:
                f.write(HEAD + "Files: *\nLicense: ISC\n")
            self.assertEqual(licences.fields(licences.notice_of("libone", root)), {
                "licenseDeclared": "ISC", "licenseComments": "Of the source package as a whole, by its notice."})
            self.assertEqual(licences.fields(licences.notice_of("libtwo", root)), {"licenseDeclared": "NOASSERTION"})

    def test_a_word_of_our_own_is_explained_once(self):
        self.assertEqual(licences.extracted([{"licenseDeclared": "MIT"}]), {})
        infos = licences.extracted([{"licenseDeclared": licences.PUBLIC_DOMAIN}] * 2)["hasExtractedLicensingInfos"]
        self.assertEqual([info["licenseId"] for info in infos], ["LicenseRef-public-domain"])


if __name__ == "__main__":
    result = unittest.TextTestRunner(stream=sys.stdout).run(unittest.defaultTestLoader.loadTestsFromModule(sys.modules[__name__]))
    bad = len(result.failures) + len(result.errors)
    print(f"{result.testsRun - bad - len(result.skipped)} passed, {bad} failed, {len(result.skipped)} skipped")
    sys.exit(bool(bad))
