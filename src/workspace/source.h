#pragma once

struct err;
struct tree;

/* source: a workspace that comes from somewhere else than a person's folder.
 *
 *   git   URL, or URL#BRANCH: a shallow clone, without its history
 *   zip   URL of an archive: tar in any compression, or zip; without URL it stands for uploads
 *   s3    s3://BUCKET/ARCHIVE or s3://BUCKET/PREFIX/
 *
 * The programs that fetch (git, curl or wget, tar, unzip, aws) are those of the sync pod's image.
 * What they leave is not trusted: it lands in a folder of its own and is taken over entry by entry
 * by the rules of workspace/manifest.h, so links that lead out, devices and the like stay behind.
 */
struct source {
    const char *kind;
    const char *url;
    void (*note)(void *user, const char *text);
    void *user;
};

/* Fetch and commit it as the tree's first revision. */
int source_fetch(struct tree *tree, const char *root, const struct source *source, struct err *err);
