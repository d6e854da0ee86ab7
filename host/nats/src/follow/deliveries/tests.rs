use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::{ASK_AFTER, Silence};

const MAX: Duration = Duration::from_millis(12_500);

#[tokio::test(start_paused = true)]
async fn waits_that_are_dropped_again_and_again_do_not_prolong_a_silence() {
    for patience in [None, Some(ASK_AFTER)] {
        let silence = Silence { last_sign: Instant::now(), max: MAX };
        // The other stream of a reader yields all the time. The reader looks at the silence after a whole wait.
        loop {
            tokio::select! {
                () = silence.wait(patience) => if silence.is_over() { break },
                () = sleep(Duration::from_millis(50)) => {
                    assert!(silence.last_sign.elapsed() < MAX + ASK_AFTER, "{patience:?}");
                }
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_wait_ends_when_the_server_is_to_be_asked() {
    let silence = Silence { last_sign: Instant::now(), max: MAX };
    silence.wait(Some(ASK_AFTER)).await;
    assert_eq!(silence.last_sign.elapsed().as_millis(), ASK_AFTER.as_millis());
    silence.wait(None).await;
    assert!(silence.is_over());
}
