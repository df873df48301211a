// Where tiles are. A bed stays at its place; a person may choose that the worst come first.
const NEEDS_NOBODY = 9;      // the rank of a tile that is well; lower ranks are worse
// How long a tile must need attention, or no longer, before its place changes.
const PLACE_SECONDS = 5;
// And while somebody points or types, no tile moves away from under the finger.
const POINTED_SECONDS = 3;

// Those that need attention have the first places, the worst first. All others stay, but for those at home in one of
// the first places: they give way, to the place of one that went there.
function places(beds, needy) {
  const first = new Set(needy), giveWay = beds.slice(0, needy.length).filter(key => !first.has(key));
  return needy.concat(beds.slice(needy.length).map(key => first.has(key) ? giveWay.shift() : key));
}
