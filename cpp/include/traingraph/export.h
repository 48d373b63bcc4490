#pragma once

// Visibility of the one exported namespace. A static core needs no decoration.
#if defined(TRAINGRAPH_STATIC)
#define TRAINGRAPH_API
#elif defined(_WIN32)
#if defined(TRAINGRAPH_BUILDING)
#define TRAINGRAPH_API __declspec(dllexport)
#else
#define TRAINGRAPH_API __declspec(dllimport)
#endif
#else
#define TRAINGRAPH_API __attribute__((visibility("default")))
#endif
