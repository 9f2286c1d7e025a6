#pragma once

/* play: what is played under the recorder, and how its images are looked at.
 *
 * A play does its work in a folder and says, a line each: "try NAME VALUE" before something is
 * asked for and "ack NAME VALUE" when it was acknowledged. A look opens what a power cut left in a
 * folder, says "has NAME VALUE" for what is there and "failed WORDS" for what must not be, and then
 * goes on with the work, as the next life would. */
__attribute__((format(printf, 1, 2))) void say(const char *fmt, ...);

void play_store(const char *folder, int count);
void look_store(const char *folder);
void play_tree(const char *folder, int count);
void look_tree(const char *folder);
void play_files(const char *folder, int count);
void look_files(const char *folder);
