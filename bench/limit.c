#include "limit.h"

#include "bench.h"

#include <sqlite3.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PODS      13000
#define POD_BYTES 3200 /* about what one takes after admission */

static void must(bool fine, sqlite3 *handle)
{
    if (fine)
        return;
    (void)fprintf(stderr, "bench: SQLite: %s\n", sqlite3_errmsg(handle));
    exit(1);
}

double limit_commits(const char *path, size_t batch)
{
    static char body[POD_BYTES];
    sqlite3 *handle = NULL;
    sqlite3_stmt *insert[2] = {NULL};

    (void)memset(body, 'x', sizeof(body));
    must(sqlite3_open(path, &handle) == SQLITE_OK, handle);
    must(sqlite3_exec(handle,
                      "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;"
                      "CREATE TABLE o(k TEXT PRIMARY KEY, r INTEGER, v BLOB);"
                      "CREATE TABLE l(r INTEGER PRIMARY KEY, v BLOB)",
                      NULL, NULL, NULL) == SQLITE_OK,
         handle);
    must(!sqlite3_prepare_v2(handle, "INSERT INTO o VALUES(?1, ?1, ?2)", -1, &insert[0], NULL) &&
             !sqlite3_prepare_v2(handle, "INSERT INTO l VALUES(?1, NULL)", -1, &insert[1], NULL),
         handle);
    double began_s = bench_now_s();
    for (size_t i = 0; i < PODS; i++) {
        if (i % batch == 0)
            must(sqlite3_exec(handle, "BEGIN", NULL, NULL, NULL) == SQLITE_OK, handle);
        for (size_t j = 0; j < 2; j++) {
            sqlite3_bind_int(insert[j], 1, (int)i);
            if (j == 0)
                sqlite3_bind_blob(insert[j], 2, body, sizeof(body), NULL);
            must(sqlite3_step(insert[j]) == SQLITE_DONE, handle);
            (void)sqlite3_reset(insert[j]);
        }
        if (i % batch == batch - 1 || i == PODS - 1)
            must(sqlite3_exec(handle, "COMMIT", NULL, NULL, NULL) == SQLITE_OK, handle);
    }
    double took_s = bench_now_s() - began_s;
    sqlite3_finalize(insert[0]);
    sqlite3_finalize(insert[1]);
    (void)sqlite3_close(handle);
    return PODS / took_s;
}
