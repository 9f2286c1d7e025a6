#pragma once

/* version: which build this is, "1424.gdf800c0f" (tools/version.sh); empty where nobody knows. In a file of its own, so
 * that a commit compiles one file anew. MUSTER_VERSION is the version. */
extern const char muster_build[];
