#pragma once

/* Volumes that are folders of the node agent: who makes them, and what their PersistentVolumes say.
 * The driver is a domain name: Kubernetes checks it. */
#define FOLDER_PROVISIONER "muster.local/folder"
#define FOLDER_DRIVER      "folder.muster.local"
