#pragma once

#import <Foundation/Foundation.h>

// What all data sources of kernels answer alike: what they give lies in memory, so there is nothing
// to load and nothing to give back. For .mm files only.
@interface TraingraphDataSource : NSObject
- (BOOL)load;
- (void)purge;
- (NSString*)label;
@end
