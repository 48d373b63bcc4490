#include "backends/metal/images/data_source.h"

@implementation TraingraphDataSource
- (BOOL)load {
  return YES;
}
- (void)purge {
}
- (NSString*)label {
  return nil;
}
@end
