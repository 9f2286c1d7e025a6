#pragma once

struct command;

/* The subcommands of muster, one file each; muster.c lists them. */
extern const struct command command_user;
extern const struct command command_up;
extern const struct command command_doctor;
extern const struct command command_kubeconfig;
extern const struct command command_operator;
extern const struct command command_hollow_nodes;
extern const struct command command_checkpoint;
extern const struct command command_reserve;
extern const struct command command_store;
extern const struct command command_backup;
extern const struct command command_restore;
extern const struct command command_support;
extern const struct command command_simulate;
extern const struct command command_replay;
extern const struct command command_gpu;
extern const struct command command_image;
extern const struct command command_open;
