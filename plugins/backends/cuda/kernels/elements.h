// All of the backend's kernels.
#pragma once

#include "activation.h"
#include "flatten.h"
#include "ingest.h"
#include "normalise.h"
#include "plain.h"
#include "pool.h"
#include "rows.h"
#include "update.h"
