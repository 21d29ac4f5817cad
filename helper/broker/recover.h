/* What a broker that ended in the midst of something left behind. Called at the start of the next
 * one, when the runs that go on are known. */
#pragma once

#include "broker/manager.h"

/* Marks runs that never ended as lost, publishes what was ready for it, and removes what was half
 * written; each with a record. */
void recover(struct manager *manager);
